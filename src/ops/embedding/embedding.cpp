#include "ops/embedding/embedding.h"

#include "kernels/float_kernels.h"
#include "ops/embedding/embedding_attrs.h"
#include "ops/embedding/embedding_cpu.h"
#include "ops/embedding/embedding_cuda.h"
#include "ops/packed_rows.h"

namespace snug::ops {
namespace {

enum In : size_t { kTable, kTokens, kPositions, kTypes, kStarts };

// A table of rows of the same width as the main one.
void require_rows(const OpView& op, size_t port, int64_t at_least, std::string_view needed_for) {
  if (!op.has(port)) return;
  const Type& table = op.in(port);
  op.require(table.shape.rank() == 2 && table.shape.back() == op.shape(kTable).back() &&
                 table.dtype == op.in(kTable).dtype,
             "{} {} does not match table {}", op.def.inputs[port].name, table.text(),
             op.in(kTable).text());
  op.require(table.shape[0] >= at_least, "{} has {} rows, but {} needs {}",
             op.def.inputs[port].name, table.shape[0], needed_for, at_least);
}

std::vector<Type> infer(const OpView& op) {
  const Type& tokens = op.in(kTokens);
  op.require(tokens.dtype == Dtype::i32 && tokens.shape.rank() == 2, "tokens {} are not i32[B,T]",
             tokens.text());
  op.require(op.shape(kTable).rank() == 2, "table {} is not [V,C]", op.in(kTable).text());
  require_padding(op, op.shape(kTable)[0]);
  const int64_t first = first_position(op.attrs);
  op.require(first >= 0, "first_position {} is negative", first);
  require_rows(op, kPositions, checked_add(tokens.shape[1], first, "positions"),
               "the sequence length");
  require_rows(op, kTypes, 1, "type 0");
  require_starts(op, kStarts, tokens.shape[0], tokens.shape[1]);
  return {{op.in(kTable).dtype, {tokens.shape[0], tokens.shape[1], op.shape(kTable).back()}}};
}

void grad(GradContext& g) {
  const ValueId dy = g.dout(0);
  auto rows = [&](size_t port) { return Attrs{{"rows", g.type(g.in(port)).shape[0]}}; };
  if (g.wants(kTable)) {
    Attrs attrs = rows(kTable);
    set_padding(attrs, padding_of(g.attrs()));
    for (const char* shared : {"first", "words"})
      if (g.attrs().has(shared)) attrs.set(shared, g.attrs().i(shared));
    set_scale(attrs, scale_of(g.attrs()));
    g.set(kTable, g.emit(embedding_grad_def, {dy, g.in(kTokens)}, std::move(attrs))[0]);
  }
  if (g.wants(kPositions)) {
    Attrs attrs = rows(kPositions);
    set_first_position(attrs, first_position(g.attrs()));
    g.set(kPositions, g.emit(embedding_grad_positions_def, {dy, ValueId{}, g.in(kStarts)},
                             std::move(attrs), "grad_positions")[0]);
  }
  if (g.wants(kTypes)) {
    g.set(kTypes, g.emit(embedding_grad_types_def, {dy}, rows(kTypes), "grad_types")[0]);
  }
}

// Reads one table row per token, not the whole table.
Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  const int64_t y = outputs[0].bytes();
  const int64_t sources = 1 + (op.has(kPositions) ? 1 : 0) + (op.has(kTypes) ? 1 : 0);
  return {.flops = (sources - 1) * outputs[0].shape.elements(),
          .bytes_read = op.in(kTokens).bytes() + sources * y,
          .bytes_written = y};
}

void reference(const RefArgs& a) {
  const auto C = static_cast<size_t>(a.in(kTable).shape().back());
  const int64_t T = a.in(kTokens).shape().back();
  for (size_t r = 0; r < a.in(kTokens).v.size(); ++r) {
    const int64_t rows = a.in(kTable).shape()[0];
    const auto token = static_cast<int64_t>(a.in(kTokens).v[r]) - first_word(a.attrs);
    const bool here = token >= 0 && token < rows, others = others_here(a.attrs);
    const auto position = static_cast<size_t>(
        position_in_sample(a, kStarts, static_cast<int64_t>(r), T) + first_position(a.attrs));
    for (size_t c = 0; c < C; ++c) {
      double sum = 0;
      if (here) sum = scale_of(a.attrs) * a.in(kTable).v[static_cast<size_t>(token) * C + c];
      if (a.has(kPositions) && others) sum += a.in(kPositions).v[position * C + c];
      if (a.has(kTypes) && others) sum += a.in(kTypes).v[c];
      a.out(0).v[r * C + c] = sum;
    }
  }
}

std::vector<Sample> samples() {
  struct With {
    int64_t positions = 0, types = 0;  // rows; 0: absent
    double scale = 1;
    int64_t first = 0;
  };
  auto sample = [](const char* name, Shape tokens, Shape table, With with) {
    auto rows = [&](int64_t n) {
      return SampleInput{{Dtype::f32, {n, table.back()}}, n > 0 ? Fill::normal() : Fill::absent()};
    };
    const auto V = static_cast<double>(table[0]);
    Attrs attrs;
    set_scale(attrs, with.scale);
    set_first_position(attrs, with.first);
    return Sample{name,
                  {{{Dtype::f32, table}},
                   {{Dtype::i32, tokens}, Fill::integers(V)},
                   rows(with.positions),
                   rows(with.types)},
                  std::move(attrs)};
  };
  auto packed = [&](const char* name, Shape tokens, Shape table, With with,
                    std::vector<int64_t> lengths) {
    Sample s = sample(name, tokens, table, with);
    s.inputs.push_back(packed_starts(tokens[0], tokens[1], std::move(lengths)));
    return s;
  };
  Sample after_others = sample("after others", {2, 3}, {11, 8}, {.positions = 20});
  after_others.inputs.push_back({{Dtype::i32, {2, 3}}, Fill::constant(-12)});
  // Words 6 to 16 of 30.
  Sample some_words = sample("some words", {3, 40}, {30, 16}, {.positions = 40, .scale = 0.5});
  some_words.inputs[0].type.shape = {11, 16};
  some_words.attrs.set("first", 6);
  some_words.attrs.set("words", 30);
  return {
      std::move(some_words),
      sample("tokens alone", {2, 3}, {11, 8}, {}),
      sample("positions", {3, 7}, {13, 21}, {.positions = 9}),
      sample("positions and types", {2, 50}, {17, 37}, {.positions = 50, .types = 2}),
      sample("repeated tokens", {4, 40}, {3, 48}, {}),
      sample("scaled", {4, 40}, {5, 24}, {.scale = 4.5}),  // in every type a number
      sample("scaled, positions", {2, 9}, {5, 13}, {.positions = 9, .scale = 0.75}),
      sample("positions from 2 on", {3, 7}, {13, 16}, {.positions = 11, .first = 2}),
      packed("packed, positions from 2 on", {2, 9}, {5, 13}, {.positions = 11, .first = 2}, {4}),
      packed("packed", {3, 40}, {13, 21}, {.positions = 50}, {7, 1, 19}),
      packed("packed, vectors", {2, 70}, {13, 64}, {.positions = 70, .types = 1}, {1, 30, 2}),
      after_others};
}

}  // namespace

const OpDef embedding_def{
    .kind = "embedding",
    .inputs = {"table", "tokens", optional("positions"), optional("types"), optional("starts")},
    .outputs = {"y"},
    .infer = infer,
    .grad = grad,
    .cost = cost,
    .splits = {{"rows", {Split::kWhole, 0, Split::kWhole, Split::kWhole, 0}, {0}}},
    .kernels = float_kernels(embedding_cpu, {.run = SNUG_CUDA_KERNEL(embedding_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId embedding(Builder& b, std::string_view name, const Embedding& p) {
  Attrs attrs;
  set_padding(attrs, p.padding);
  set_scale(attrs, p.scale);
  set_first_position(attrs, p.first_position);
  return b.emit(embedding_def, name, {p.table, p.tokens, p.positions, p.types, p.starts},
                std::move(attrs))[0];
}

}  // namespace snug::ops
