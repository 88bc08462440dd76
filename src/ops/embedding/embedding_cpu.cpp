#include "ops/embedding/embedding_cpu.h"

#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/embedding/embedding_attrs.h"
#include "ops/packed_rows.h"

namespace snug::ops {
namespace {

template <typename T>
void look_up(const KernelArgs& a) {
  const int64_t length = a.in(1).shape().back();
  const int64_t rows = a.in(1).elements();
  const int64_t C = a.in(0).shape().back();
  const T* table = a.in<T>(0);               // [V, C]
  const int32_t* tokens = a.in<int32_t>(1);  // [B, T]
  const bool others = others_here(a.attrs);
  const T* positions =
      others ? a.in<T>(2) : nullptr;  // [P, C] or absent; from the first position on
  if (positions != nullptr) positions += first_position(a.attrs) * C;
  const T* types = others ? a.in<T>(3) : nullptr;  // [N, C] or absent
  const int32_t* starts = a.in<int32_t>(4);        // [B, T] or absent
  T* y = a.out<T>(0);                              // [B, T, C]
  const float scale = rounded_scale(a);
  const int64_t first = first_word(a.attrs), words = a.in(0).shape()[0];
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t word = tokens[r] - first;
    const bool here = word >= 0 && word < words;
    const T* row = table + (here ? word : 0) * C;
    const float times = here ? scale : 0.0F;
    const T* position =
        positions != nullptr ? positions + position_in_sample(starts, r, length) * C : nullptr;
    T* yr = y + r * C;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) {
      float sum = row[c] * times;
      if (position != nullptr) sum += position[c];
      if (types != nullptr) sum += types[c];
      store(yr[c], sum);
    }
  }
}

// --- backward ------------------------------------------------------------------------------------

// The output starts as the sum that it is added to, or as zeros: the same bits in every type.
void start_from(const KernelArgs& a, size_t sum_port) {
  auto* out = a.out<std::byte>(0);
  const int64_t bytes = a.out(0).type->bytes();
  if (a.has(sum_port)) return copy_elements(a.in<std::byte>(sum_port), out, bytes);
  for_blocks(bytes, [out](int64_t begin, int64_t end) {
    std::fill(out + begin, out + end, std::byte{0});
  });
}

constexpr int64_t kNoRow = -1;

// For every i below n: adds to row row_of(i) of the output (kNoRow: to none) the rows of dy that
// for_rows(row, add) names, in its order. A row is summed in fp32, a tile of columns at a time, and
// rounded once; the tiles also spread a row of many addends over the threads.
template <typename RowOf, typename ForRows>
void gather_rows(const KernelArgs& a, int64_t n, const RowOf& row_of, const ForRows& for_rows) {
  constexpr int64_t kTile = 256;
  const int64_t C = a.out(0).shape().back();
  const auto add_to_rows = [&](const auto* dy, auto* out, float scale) {
#pragma omp parallel for collapse(2) schedule(dynamic, 64)
    for (int64_t first = 0; first < C; first += kTile) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t row = row_of(i);
        if (row == kNoRow) continue;
        float sum[kTile];
        const int64_t width = std::min(kTile, C - first);
        auto* to = out + row * C + first;
        std::copy_n(to, width, sum);
        for_rows(row, [&](int64_t r) {
          const auto* from = dy + r * C + first;
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) sum[c] += from[c] * scale;
        });
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) store(to[c], sum[c]);
      }
    }
  };
  visit_float(a.in(0).type->dtype, [&](auto x) {
    visit_float(a.out(0).type->dtype, [&](auto g) {
      add_to_rows(a.in<decltype(x)>(0), a.out<decltype(g)>(0), rounded_scale(a));
    });
  });
}

// The places of every token of the table, in order: first[v], next[first[v]], ..., until kNone.
struct Places {
  static constexpr int32_t kNone = -1;
  int32_t* first;  // [V]
  int32_t* next;   // [tokens]
};

// Whose rows of the table tokens name: those that are not here, and the padding, name none.
struct TableWords {
  int64_t first, rows, padding;
  int32_t row(int32_t token) const { return row_of_word(token, first, rows, padding); }
};

// lists: [V + n]
Places find_places(std::span<const int32_t> tokens, const TableWords& words, int32_t* lists) {
  const int64_t V = words.rows;
  const Places p{.first = lists, .next = lists + V};
  std::fill_n(p.first, V, Places::kNone);
  for (auto r = static_cast<int64_t>(tokens.size()) - 1; r >= 0; --r) {
    const int32_t row = words.row(tokens[static_cast<size_t>(r)]);
    if (row == V) continue;
    p.next[r] = p.first[row];
    p.first[row] = static_cast<int32_t>(r);
  }
  return p;
}

// Adds every row of dy to the row of the output that its token names. The first place of a token
// adds up its row.
void add_by_token(const KernelArgs& a, std::span<const int32_t> tokens, int32_t* lists) {
  const TableWords words{first_word(a.attrs), a.out(0).shape()[0], padding_of(a.attrs)};
  const Places places = find_places(tokens, words, lists);
  const auto row_of = [&](int64_t r) -> int64_t {
    const int32_t row = words.row(tokens[static_cast<size_t>(r)]);
    return row < words.rows && places.first[row] == r ? row : kNoRow;
  };
  gather_rows(a, static_cast<int64_t>(tokens.size()), row_of, [&](int64_t token, const auto& add) {
    for (int32_t r = places.first[token]; r != Places::kNone; r = places.next[r]) add(r);
  });
}

}  // namespace

void embedding_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { look_up<decltype(zero)>(a); });
}

int64_t embedding_grad_workspace(int64_t table_rows, int64_t tokens) {
  return checked_mul(checked_add(table_rows, tokens, "embedding_grad's lists"), size_of(Dtype::i32),
                     "embedding_grad's lists");
}

void embedding_grad_cpu(const KernelArgs& a) {
  start_from(a, 2);
  const std::span tokens(a.in<int32_t>(1), static_cast<size_t>(a.in(1).elements()));
  add_by_token(a, tokens, reinterpret_cast<int32_t*>(a.workspace.data()));
}

void embedding_grad_positions_cpu(const KernelArgs& a) {
  start_from(a, 1);
  const int64_t B = a.in(0).shape()[0], T = a.in(0).shape()[1], first = first_position(a.attrs);
  if (const int32_t* starts = a.in<int32_t>(2); starts != nullptr) {
    auto* positions = reinterpret_cast<int32_t*>(a.workspace.data());  // [B, T]
    for (int64_t r = 0; r < B * T; ++r)
      positions[r] = static_cast<int32_t>(position_in_sample(starts, r, T) + first);
    return add_by_token(a, {positions, static_cast<size_t>(B * T)},
                        positions + positions_scratch(B * T) / size_of(Dtype::i32));
  }
  const auto row_of = [&](int64_t t) { return t + first; };
  gather_rows(a, T, row_of, [&](int64_t row, const auto& add) {
    for (int64_t b = 0; b < B; ++b) add(b * T + row - first);
  });
}

// Every token is of type 0.
void embedding_grad_types_cpu(const KernelArgs& a) {
  start_from(a, 1);
  column_sum({.x = a.in(0).data,
              .add = a.out(0).data,
              .sum = a.out(0).data,
              .scratch = reinterpret_cast<float*>(a.workspace.data()),
              .rows = a.in(0).shape().rows(),
              .columns = a.in(0).shape().back(),
              .x_dtype = a.in(0).type->dtype,
              .sum_dtype = a.out(0).type->dtype});
}

}  // namespace snug::ops
