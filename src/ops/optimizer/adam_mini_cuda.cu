#include "ops/optimizer/mini_scratch.h"
#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"

namespace snug::ops {
namespace {

// Many sums at once: each by a team of threads, a warp or a whole block (mini_scratch.h).
constexpr int kTeamThreads = MiniScratch::kBlockTeam;

template <int kTeam>
struct Team {
  int64_t index = (int64_t{blockIdx.x} * kTeamThreads + threadIdx.x) / kTeam;
  int lane = static_cast<int>(threadIdx.x) % kTeam;

  __device__ static double sum(double x) {
    if constexpr (kTeam == 32) return warp_sum(x);
    return block_sum<kTeam>(x);
  }
};

// fn(std::integral_constant<int, team>, blocks) for `count` sums of `each` numbers.
template <typename Fn>
void with_teams(int64_t count, int64_t each, const Fn& fn) {
  if (MiniScratch::team_of(each) == kTeamThreads)
    fn(std::integral_constant<int, kTeamThreads>{}, static_cast<unsigned>(count));
  else
    fn(std::integral_constant<int, 32>{},
       static_cast<unsigned>(ceil_div(count, kTeamThreads / 32)));
}

// The square is exact, so that fusing it into the sum changes nothing.
__device__ double add_square(double sum, float grad, float scale) {
  const auto g = static_cast<double>(grad * scale);
  return fma(g, g, sum);
}

// --- squares of the gradient, summed by output ---------------------------------------------------

// One team per row. vectorised: rows can be read so.
template <typename G, int kTeam>
__global__ void __launch_bounds__(kTeamThreads)
    squares_of_rows(const __grid_constant__ UpdateCuda u, const Outputs outputs, bool vectorised,
                    double* sums) {
  const Team<kTeam> team;
  if (u.skipped() || team.index >= outputs.count) return;
  constexpr int kSize = Vector<G>::kSize;
  const G* row = static_cast<const G*>(u.grad) + team.index * outputs.each;
  const float scale = *u.scale;
  const int64_t packed = vectorised ? outputs.each / kSize : 0;
  double slots[kSize] = {};
  int64_t p = team.lane;
#pragma unroll 4
  for (; p < packed; p += kTeam) {
    const Vector<G> x = Vector<G>::load(row + p * kSize);
#pragma unroll
    for (int i = 0; i < kSize; ++i) slots[i] = add_square(slots[i], x[i], scale);
  }
  for (; p * kSize < outputs.each; p += kTeam) {
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      if (p * kSize + i < outputs.each)
        slots[i] = add_square(slots[i], to_float(row[p * kSize + i]), scale);
  }
  double share = 0;
#pragma unroll
  for (int i = 0; i < kSize; ++i) share += slots[i];
  const double sum = team.sum(share);
  if (team.lane == 0) sums[team.index] = sum;
}

// A block has 32 columns of one slice of rows, each warp every eighth of them.
// sums: [slices, outputs]
template <typename G>
__global__ void __launch_bounds__(kTeamThreads)
    squares_of_columns(const __grid_constant__ UpdateCuda u, const Outputs outputs, double* sums) {
  if (u.skipped()) return;
  constexpr int kWarps = MiniScratch::kRowsAtOnce;
  static_assert(kWarps == kTeamThreads / 32);
  __shared__ double of_warp[kWarps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t column = int64_t{blockIdx.x} * 32 + lane;
  const int64_t first = int64_t{blockIdx.y} * MiniScratch::kSliceRows;
  const int64_t end = min(outputs.each, first + MiniScratch::kSliceRows);
  const G* grad = static_cast<const G*>(u.grad);
  const float scale = *u.scale;
  double share = 0;
  if (column < outputs.count) {
#pragma unroll 4
    for (int64_t row = first + warp; row < end; row += kWarps)
      share = add_square(share, to_float(grad[row * outputs.count + column]), scale);
  }
  of_warp[warp][lane] = share;
  __syncthreads();
  if (warp != 0 || column >= outputs.count) return;
  double sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += of_warp[w][lane];
  sums[int64_t{blockIdx.y} * outputs.count + column] = sum;
}

void squares_of_outputs(const KernelArgs& a, const UpdateCuda& u, const Outputs& outputs,
                        const MiniScratch& scratch) {
  visit_device_float(a.in(UpdatePorts::kGrad).type->dtype, [&](auto zero) {
    using G = decltype(zero);
    if (outputs.columns) {
      const dim3 grid(static_cast<unsigned>(ceil_div(outputs.count, 32)),
                      static_cast<unsigned>(scratch.slices));
      squares_of_columns<G><<<grid, kTeamThreads, 0, stream_of(a)>>>(u, outputs, scratch.sums);
    } else {
      with_teams(outputs.count, outputs.each, [&](auto team, unsigned blocks) {
        squares_of_rows<G, team()><<<blocks, kTeamThreads, 0, stream_of(a)>>>(
            u, outputs, u.aligned && vectorises<G>(outputs.each), scratch.sums);
      });
    }
  });
  check_launch("adam_mini's squares");
}

// --- second moments ------------------------------------------------------------------------------

// `parts` neighbours of `outputs` outputs each.
struct Group {
  int64_t parts, outputs;
  int64_t first_part, first_output;
};

// Renews the second moment of every part, by one team, and gives each of its outputs what its
// elements are divided by.
template <int kTeam>
__global__ void __launch_bounds__(kTeamThreads)
    renew_parts(const __grid_constant__ UpdateCuda u, const __grid_constant__ Adam given,
                const Outputs outputs, const Group group, const MiniScratch scratch, float* v) {
  if (u.skipped()) return;
  __shared__ UpdateNumbers<Adam> numbers;
  if (threadIdx.x == 0) numbers.make(u, given);
  __syncthreads();
  const Team<kTeam> team;
  if (team.index >= group.parts) return;
  float& moment = v[group.first_part + team.index];
  const float old = moment;  // before any thread of the team can have stored the next
  const int64_t first = group.first_output + team.index * group.outputs;
  double share = 0;
  for (int64_t slice = 0; slice < scratch.slices; ++slice) {
#pragma unroll 4
    for (int64_t o = team.lane; o < group.outputs; o += kTeam)
      share += scratch.sums[slice * outputs.count + first + o];
  }
  const auto elements = static_cast<double>(group.outputs * outputs.each);
  const auto mean = static_cast<float>(team.sum(share) / elements);
  const float next = numbers.rule.old2 * old + numbers.rule.new2 * mean;
  if (team.lane == 0) moment = next;
  for (int64_t o = team.lane; o < group.outputs; o += kTeam)
    scratch.divisors[first + o] = numbers.rule.divisor(next);
}

void renew_groups(const KernelArgs& a, const UpdateCuda& u, const Outputs& outputs,
                  const MiniScratch& scratch) {
  Group group{};
  for_groups(a.attrs.s("groups"), [&](int64_t parts, int64_t each) {
    group.parts = parts;
    group.outputs = each;
    with_teams(parts, each, [&](auto team, unsigned blocks) {
      renew_parts<team()><<<blocks, kTeamThreads, 0, stream_of(a)>>>(
          u, Adam::of(a.attrs), outputs, group, scratch, a.out<float>(2));
    });
    group.first_part += parts;
    group.first_output += parts * each;
  });
  check_launch("adam_mini's second moments");
}

// --- the update ----------------------------------------------------------------------------------

struct Mini {
  static constexpr int kStates = 1;
  Adam adam;
  Outputs outputs;
  const float* divisors;  // [outputs]

  struct Cursor {
    int64_t output, within;  // within: elements of a row that come before
  };

  __device__ void start(double lr, int64_t step) { adam.start(lr, step); }
  __device__ Cursor cursor(int64_t element) const {
    if (outputs.columns) return {element % outputs.count, 0};
    const int64_t row = element / outputs.each;
    return {row, element - row * outputs.each};
  }
  __device__ void next(Cursor& at) const {
    if (!outputs.columns && ++at.within < outputs.each) return;
    at.within = 0;
    if (++at.output == outputs.count) at.output = 0;  // nothing follows the last row
  }
  __device__ float operator()(Cursor& at, float g, float& m, float&) const {
    const float divisor = divisors[at.output];
    next(at);
    m = adam.next_m(m, g);
    return adam.step_size * (m / divisor);
  }
};

}  // namespace

void adam_mini_cuda(const KernelArgs& a) {
  const Outputs outputs = outputs_of(a.in(UpdatePorts::kParam).shape(), a.attrs.b("in_out"));
  const MiniScratch scratch(outputs, a.workspace.data());
  const UpdateCuda u(a, /*op_states=*/2, /*moments=*/1);
  if (u.n == 0) return;
  squares_of_outputs(a, u, outputs, scratch);
  renew_groups(a, u, outputs, scratch);
  launch_update(a, u,
                Mini{.adam = Adam::of(a.attrs), .outputs = outputs, .divisors = scratch.divisors});
}

}  // namespace snug::ops
