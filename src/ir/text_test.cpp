#include "ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "ir/lifetime.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

Module parsed(std::string_view text) { return parse(text, toy::kAll); }

// A module in which everything occurs that the text must carry.
Module everything() {
  Module m{.name = "every \"thing\""};
  const ValueId w = add_shared(m, "w", toy::kVector, Category::params, Scope::persistent,
                               {.role = Role::matrix,
                                .init = {Init::Kind::normal, 0.02},
                                .in_out = true,
                                .heads = 4,
                                .value_heads = 1,
                                .checkpoint = {{"q", {32}, 0}, {"k", {32}, 32}}},
                               2);
  add_shared(m, "scale", {Dtype::f32, {}}, Category::buffers, Scope::persistent,
             {.init = {Init::Kind::constant, 1}, .trainable = false});
  const ValueId x = add_shared(m, "x", toy::kVector, Category::inputs, Scope::step);
  const ValueId host = add_shared(m, "host", toy::kVector, Category::optimizer, Scope::persistent);
  m[host].space = Space::host;
  m[w].padded = {128};
  const ValueId grad = add_gradient(m, w, Dtype::f32);
  m[grad].layer = kNoLayer;
  const ValueId tied = m.add({.name = "tied",
                              .type = {Dtype::f32, {32}},
                              .category = Category::params,
                              .scope = Scope::persistent,
                              .base = w,
                              .view_offset = 32});

  Builder b(m, ProgramRole::training_first);
  {
    auto layer = b.layer(0, "h.0");
    const auto y =
        b.emit(toy::norm, "norm", {x},
               {{"eps", 1e-5}, {"one", 1.0}, {"n", 12}, {"on", true}, {"how", "a \"b\"\n"}});
    const ValueId next = b.emit(toy::unary, "act", {y[0]})[0];
    m[next].base = y[0];
    const ValueId half = b.view(next, "half", {32}, 32);
    b.emit(toy::add, "sum", {half, tied});
    m[b.last().outputs[0]].layer = kNoLayer;
    b.set_phase(Phase::backward);
    const ValueId dw = b.emit_into(toy::wgrad, "dw", {next, grad}, grad);
    b.last().workspace = m.add({.name = "h.0.dw.scratch",
                                .type = {Dtype::u8, {512}},
                                .category = Category::workspace,
                                .program = 0,
                                .layer = 0});
    b.last().clone_of = "h.0.act";
    b.last().backward_of = "h.0.norm";
    const ValueId staged = b.emit(toy::copy, "fetch", {host})[0];
    b.last().lane = "copy_in";
    b.last().after = {"h.0.norm", "h.0.act"};
    m[staged].category = Category::staging;
    b.emit(toy::add, "odd name", {staged, dw});
    b.last().micro_batch = 2;
    b.last().chunk = 1;
  }
  Builder update(m, ProgramRole::update);
  update.set_phase(Phase::update);
  const ValueId ok = update.emit(toy::finite, "finite", {grad, x, w})[0];
  update.emit(toy::update, "update.w", {w, grad});
  update.last().predicate = ok;
  Builder(m, "own").emit(toy::unary, "y", {x});
  m.step = {{1, {"micro_first"}}, {3, {"micro_first", "update"}}};
  compute_lifetimes(m);
  m.level = Level::placed;
  m.arena_bytes[0] = 1'234'432;
  for (Value& v : m.values) {
    if (v.owns_bytes()) v.offset = 65'536;
  }
  return m;
}

// The parsed module may number its values otherwise; seen by name, it must be the same.
void expect_same(const Module& a, const Module& b) {
  auto name = [](const Module& m, ValueId id) { return id.valid() ? m[id].name : "-"; };
  auto names = [&](const Module& m, const std::vector<ValueId>& ids) {
    std::vector<std::string> out;
    for (ValueId id : ids) out.push_back(name(m, id));
    return out;
  };
  ASSERT_EQ(a.values.size(), b.values.size());
  for (const Value& v : a.values) {
    const auto found = std::ranges::find(b.values, v.name, &Value::name);
    ASSERT_NE(found, b.values.end()) << v.name;
    EXPECT_EQ(
        std::tuple(v.type, v.category, v.space, v.scope, v.program, v.layer, v.padded,
                   v.view_offset, v.live, v.offset),
        std::tuple(found->type, found->category, found->space, found->scope, found->program,
                   found->layer, found->padded, found->view_offset, found->live, found->offset))
        << v.name;
    EXPECT_EQ(name(a, v.base), name(b, found->base));
    EXPECT_EQ(name(a, v.parameter), name(b, found->parameter));
    ASSERT_EQ(v.param == nullptr, found->param == nullptr) << v.name;
    if (v.param != nullptr) {
      EXPECT_EQ(*v.param, *found->param);
    }
  }
  ASSERT_EQ(a.programs.size(), b.programs.size());
  for (size_t p = 0; p < a.programs.size(); ++p) {
    EXPECT_EQ(a.programs[p].name, b.programs[p].name);
    EXPECT_EQ(a.programs[p].role, b.programs[p].role);
    ASSERT_EQ(a.programs[p].ops.size(), b.programs[p].ops.size());
    for (size_t i = 0; i < a.programs[p].ops.size(); ++i) {
      const Op& x = a.programs[p].ops[i];
      const Op& y = b.programs[p].ops[i];
      EXPECT_EQ(std::tuple(x.def, x.name, x.attrs, x.layer, x.phase, x.lane, x.after, x.clone_of,
                           x.backward_of),
                std::tuple(y.def, y.name, y.attrs, y.layer, y.phase, y.lane, y.after, y.clone_of,
                           y.backward_of));
      EXPECT_EQ(names(a, x.inputs), names(b, y.inputs));
      EXPECT_EQ(names(a, x.outputs), names(b, y.outputs));
      EXPECT_EQ(name(a, x.predicate), name(b, y.predicate));
      EXPECT_EQ(name(a, x.workspace), name(b, y.workspace));
    }
  }
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.level, b.level);
  EXPECT_EQ(a.layers, b.layers);
  EXPECT_EQ(a.step, b.step);
  EXPECT_TRUE(std::ranges::equal(a.arena_bytes, b.arena_bytes));
}

TEST(Text, ReadsLikeThis) {
  EXPECT_EQ(print(everything()), R"(module "every \"thing\"" placed
arena device 1,234,432 bytes

layers
  L0  h.0

shared
  %w       f32[64]  params     persistent  @65,536  padded [128]  L2  init normal(0.02)  role matrix  in_out  heads 4  value_heads 1  saved "q" [32] +0, "k" [32] +32
  %scale   f32[]    buffers    persistent  @65,536  init constant(1.0)  frozen
  %x       f32[64]  inputs     step        @65,536
  %host    f32[64]  optimizer  persistent  @65,536  host  init zeros
  %grad.w  f32[64]  grads      step        @65,536  for %w
  %tied    f32[32]  params     persistent  of %w +32

program micro_first  role training_first
  forward
  0  h.0.norm: norm(x=%x) {eps=1e-05, how="a \"b\"\x0a", n=12, on=true, one=1.0}  L0
        y         -> %h.0.norm.y      f32[64]  activations  live 0..3        @65,536
        rstd      -> %h.0.norm.rstd   f32[1]   activations  live 0..0        @65,536
  1  h.0.act: unary(x=%h.0.norm.y)  L0
        y         -> %h.0.act         f32[64]  activations  in %h.0.norm.y
        view         %h.0.half        f32[32]  activations  of %h.0.act +32           L0
  2  h.0.sum: add(a=%h.0.half, b=%tied)  L0
        sum       -> %h.0.sum         f32[32]  activations  live 2..2        @65,536  L-
  backward
  3  h.0.dw: wgrad(dy=%h.0.act, dw_sum=%grad.w)  L0  clone of h.0.act  backward of h.0.norm
        dw        -> %h.0.dw          f32[64]  grads        writes %grad.w
        workspace    %h.0.dw.scratch  u8[512]  workspace    live 3..3        @65,536
  4  h.0.fetch: copy(x=%host)  L0  on copy_in  after (h.0.norm, h.0.act)
        y         -> %h.0.fetch       f32[64]  staging      live 2..5        @65,536
  5  "h.0.odd name": add(a=%h.0.fetch, b=%h.0.dw)  L0  M2  C1
        sum       -> %"h.0.odd name"  f32[64]  activations  live 5..5        @65,536

program update  role update
  update
  0  finite: finite(grads=[%grad.w, %x, %w])
        ok   -> %finite    i32[]    activations  live 0..1  @65,536
  1  update.w: update(param=%w, grad=%grad.w)  if %finite
        next -> %update.w  f32[64]  params       writes %w

program own
  forward
  0  y: unary(x=%x)
        y -> %y  f32[64]  activations  live 0..0  @65,536

step
  run micro_first
  repeat 3 { micro_first update }
)");
}

TEST(Text, RoundTripIsExact) {
  const Module m = everything();
  const Module again = parsed(print(m));
  expect_same(m, again);
  EXPECT_EQ(print(again), print(m));
}

TEST(Text, DoublesKeepEveryBit) {
  for (double v : {0.1, 1e-300, 1.0 / 3, -2.0, 1e16, 123456789.0}) {
    toy::Fixture f;
    f.b.emit(toy::unary, "a", {f.x}, {{"v", v}});
    EXPECT_EQ(parsed(print(f.module)).programs[0].ops[0].attrs.f("v"), v);
  }
}

TEST(Text, LongListsOfInputsBreak) {
  toy::Fixture f;
  std::vector<ValueId> many;
  for (int i = 0; i < 40; ++i) many.push_back(f.b.emit(toy::unary, "some.long.name", {f.x})[0]);
  f.b.emit(toy::finite, "ok", many);
  const std::string text = print(f.module);
  EXPECT_EQ(print(parsed(text)), text);
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 112U);
}

TEST(Text, CommentsAndBlankLinesAreFree) {
  const std::string text = print(everything());
  std::string spaced = "# a note\n\n";
  for (char c : text) spaced += c == '\n' ? std::string("  # why\n\n") : std::string(1, c);
  EXPECT_EQ(print(parsed(spaced)), text);
}

std::string error_of(std::string_view text) {
  try {
    parsed(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    return e.what();
  }
  return "parsed";
}

TEST(Text, ErrorsNameLineAndExpectation) {
  EXPECT_EQ(error_of(""), "line 1: expected 'module', found the end of the line");
  EXPECT_EQ(error_of("module \"m\" flat"),
            "line 1: expected a level: graph, step or placed, found 'flat'");
  const std::string head = "module \"m\" graph\nshared\n  %x  f32[4]  inputs  step\nprogram p\n";
  EXPECT_EQ(error_of(head + "0 a: unry(x=%x)"),
            "line 5: there is no op 'unry' - did you mean 'unary'?");
  EXPECT_EQ(error_of(head + "0 a: unary(x=%z)"), "line 5: no value 'z' is declared above");
  EXPECT_EQ(error_of(head + "0 a: unary(z=%x)"), "line 5: unary has no input 'z'");
  EXPECT_EQ(error_of(head + "1 a: unary(x=%x)"), "line 5: expected op number 0");
  EXPECT_EQ(error_of(head + "0 a: unary(x=%x)\n\n  z -> %a f32[4]"),
            "line 7: 'z' is not the next output of unary");
  EXPECT_EQ(error_of(head + "0 a: unary(x=%x)\n  y -> %x f32[4]"),
            "line 6: there is a value 'x' already");
  EXPECT_EQ(error_of(head + "0 a: unary(x=%x)\n  y -> %a f32[4,1,1,1,1,1,1]"),
            "line 6: a shape has more than 6 dimensions");
  EXPECT_THAT(error_of(head + "0 a: unary(x=%x) sideways"),
              HasSubstr("expected a fact about the op, found 'sideways'"));
  EXPECT_THAT(error_of("module \"m"), HasSubstr("expected a closing quote"));
  EXPECT_THAT(error_of("module \"m\" graph\narena device 99999999999999999999 bytes"),
              HasSubstr("expected a number of bytes"));
  EXPECT_EQ(error_of("module \"m\" graph\nlayers\n  L1  h.1"), "line 3: expected layer 0");
  EXPECT_EQ(error_of("module \"m\" graph\nprogram p  role best"),
            "line 2: expected a program's role, found 'best'");
}

// Programs may be written by hand without them.
TEST(Text, LinksMayBeLeftOut) {
  std::string text = print(everything());
  for (const char* link :
       {"\nlayers\n  L0  h.0\n", "  for %w", "  backward of h.0.norm", "  role training_first"}) {
    const size_t at = text.find(link);
    ASSERT_NE(at, std::string::npos) << link;
    text.erase(at, std::string_view(link).size());
  }
  const Module m = parsed(text);
  EXPECT_EQ(print(m), text);
  EXPECT_EQ(m.programs[0].role, ProgramRole::other);
  EXPECT_TRUE(m.layers.empty());
}

// Whatever the text, it parses or is refused.
TEST(Text, GarbageIsRefused) {
  const std::string text = print(everything());
  const std::string_view bits = "%@[](){}=:,.+->\"\\\n #0123456789abcLlivefn";
  std::mt19937 random(11);
  int kept = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string mutated = text;
    for (unsigned edits = 1 + random() % 3; edits > 0 && !mutated.empty(); --edits) {
      const size_t at = random() % mutated.size();
      const size_t length = std::min<size_t>(random() % 12, mutated.size() - at);
      switch (random() % 4) {
        case 0:
          mutated[at] = bits[random() % bits.size()];
          break;
        case 1:
          mutated.erase(at, length);
          break;
        case 2:
          mutated.insert(at, mutated.substr(random() % mutated.size(), length));
          break;
        case 3:
          mutated.resize(std::max<size_t>(at, 1));
          break;
      }
    }
    try {
      const Module m = parsed(mutated);
      EXPECT_EQ(print(parsed(print(m))), print(m));
      ++kept;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::bad_input) << e.what();
    }
  }
  EXPECT_GT(kept, 100);
}

}  // namespace
}  // namespace snug
