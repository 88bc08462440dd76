#include "pytorch/owners.h"

#include <algorithm>
#include <map>
#include <set>

namespace snug::pytorch {
namespace {

// What cuBLAS gets of PyTorch: 2 x 4,096 KiB and 8 x 16 KiB before Hopper, 32 MiB from it on.
bool is_workspace_size(int64_t bytes) { return bytes == 8'519'680 || bytes == 33'554'432; }

class Classifier {
 public:
  Classifier(const DeviceSnapshot& device, const Replay& replay, const Steps& steps,
             const std::vector<StackFacts>& stacks)
      : device_(device),
        replay_(replay),
        steps_(steps),
        stacks_(stacks),
        owners_(replay.allocations.size(), Owner::unknown) {
    for (const Allocation& a : replay.allocations)
      if (stays(a) && steps.at(a.from) > 0) made_later_.insert(a.stack);
    for (const Segment& segment : device.segments)
      for (const Block& block : segment.blocks)
        age_[block.address] = segment.expandable ? segment.address : -segment.address;
  }

  std::vector<Owner> owners() && {
    if (steps_.has_frames || device_.trace.empty()) {
      by_frames();
      split_what_was_there();
      name_what_lacks_an_update();
      find_casts();
    } else {
      by_lifetimes();
    }
    return std::move(owners_);
  }

 private:
  const StackFacts& facts(const Allocation& a) const { return stacks_[a.stack]; }
  bool stays(const Allocation& a) const { return replay_.is_alive_at_end(a); }

  // --- with frames -------------------------------------------------------------------------------

  void by_frames() {
    for (size_t i = 0; i < owners_.size(); ++i) owners_[i] = by_frame(replay_.allocations[i]);
  }
  Owner by_frame(const Allocation& a) const {
    const StackFacts& f = facts(a);
    if (f.workspace) return Owner::workspace;
    switch (f.phase) {
      case Phase::setup:
        return Owner::parameters;
      case Phase::optimizer:
        return of_update(a);
      case Phase::forward:
        return of_forward(a);
      case Phase::backward:
        return f.recomputed ? Owner::activations : of_backward(a);
      case Phase::script:
        return Owner::script;
      case Phase::bare:
        break;
    }
    if (a.from > 0) return of_backward(a);  // the engine's threads have no Python frames
    return was_there(a);
  }
  Owner of_update(const Allocation& a) const {
    const size_t step = steps_.at(a.from);
    const int64_t end = step < steps_.all.size() ? steps_.all[step].end : replay_.last();
    return a.to > end ? Owner::optimizer : Owner::temporaries;
  }
  // What only the first step made, and nothing has freed, a library keeps.
  Owner of_forward(const Allocation& a) const {
    const bool once = stays(a) && steps_.at(a.from) == 0 && steps_.all.size() > 1;
    return once && !made_later_.contains(a.stack) ? Owner::workspace : Owner::activations;
  }
  // A gradient lives into the update.
  Owner of_backward(const Allocation& a) const {
    if (stays(a) && is_workspace_size(a.requested) && steps_.at(a.from) == 0)
      return Owner::workspace;
    const size_t step = steps_.at(a.from);
    if (step == steps_.all.size()) return Owner::unknown;  // settled by its size
    return a.to > steps_.all[step].update ? Owner::gradients : Owner::temporaries;
  }
  // From before the trace, without frames.
  Owner was_there(const Allocation& a) const {
    if (stays(a)) return Owner::unknown;
    const StackFacts& end = stacks_[a.freed_by];
    if (end.zero_grad) return Owner::gradients;
    return end.phase == Phase::backward || end.phase == Phase::bare ? Owner::activations
                                                                    : Owner::unknown;
  }

  // How many parameters there are of a size: as many as gradients in one step.
  std::map<int64_t, int64_t> gradient_sizes() const {
    std::map<int64_t, std::map<size_t, int64_t>> by_step;
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (owners_[i] == Owner::gradients) ++by_step[a.requested][steps_.at(a.from)];
    }
    std::map<int64_t, int64_t> sizes;
    for (const auto& [bytes, steps] : by_step)
      for (const auto& [step, number] : steps) sizes[bytes] = std::max(sizes[bytes], number);
    return sizes;
  }
  // Of what stays from before the trace, as many of each size are parameters as there are gradients
  // of it; the others are state. Without gradients, Adam's three of each tell.
  void split_what_was_there() {
    std::vector<size_t> there;
    std::map<int64_t, int64_t> count, bytes_of_size;
    int64_t bytes = 0, in_threes = 0;
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (a.from > 0 || owners_[i] != Owner::unknown || !stays(a) || a.stack != 0) continue;
      there.push_back(i);
      ++count[a.requested];
      bytes_of_size[a.requested] += a.bytes;
    }
    std::map<int64_t, int64_t> parameters = gradient_sizes();
    for (const auto& [size, number] : count) {
      bytes += bytes_of_size[size];
      if (number % 3 == 0) in_threes += bytes_of_size[size];
    }
    const bool guess = parameters.empty();
    std::ranges::sort(there, {}, [&](size_t i) {
      const int64_t address = replay_.allocations[i].address;
      const auto age = age_.find(address);
      return std::pair(age == age_.end() ? 0 : age->second, address);
    });
    for (const size_t i : there) {
      const int64_t size = replay_.allocations[i].requested;
      if (guess && !parameters.contains(size)) {
        const int64_t all = count[size];
        parameters[size] = in_threes * 10 >= bytes * 9 && all % 3 == 0 ? all / 3 : all;
      }
      const auto left = parameters.find(size);
      if (is_workspace_size(size) && (left == parameters.end() || left->second == 0)) {
        owners_[i] = Owner::workspace;
      } else if (left == parameters.end()) {
        owners_[i] = guess ? Owner::parameters : Owner::script;
      } else {
        owners_[i] = left->second-- > 0 ? Owner::parameters : Owner::optimizer;
      }
    }
  }

  std::set<int64_t> parameter_sizes() const {
    std::set<int64_t> sizes;
    for (size_t i = 0; i < owners_.size(); ++i)
      if (owners_[i] == Owner::parameters && stays(replay_.allocations[i]))
        sizes.insert(replay_.allocations[i].requested);
    return sizes;
  }
  // A trace that ends inside backward: what has a parameter's size and stays is a gradient.
  void name_what_lacks_an_update() {
    const std::set<int64_t> sizes = parameter_sizes();
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (owners_[i] != Owner::unknown || (a.from == 0 && a.stack == 0)) continue;
      owners_[i] = stays(a) && sizes.contains(a.requested) ? Owner::gradients : Owner::temporaries;
    }
  }

  // Half of a parameter's size, in the module that has it; by a few at random there is no autocast.
  void find_casts() {
    constexpr int64_t kLarge = 1 << 16;
    std::map<int64_t, int64_t> parameters;
    int64_t large = 0;
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] != Owner::parameters) continue;
      const int64_t size = replay_.allocations[i].requested;
      if (size >= kLarge && ++parameters[size] > 0) ++large;
    }
    std::vector<size_t> casts;
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (owners_[i] != Owner::activations || facts(a).recomputed) continue;
      if (facts(a).casts || (facts(a).weighted && parameters.contains(2 * a.requested)))
        casts.push_back(i);
    }
    const auto steps = static_cast<int64_t>(std::max<size_t>(1, steps_.all.size()));
    if (std::ssize(casts) * 2 < large * std::max<int64_t>(1, steps - 1)) return;
    for (const size_t i : casts) owners_[i] = Owner::casts;
  }

  // --- without frames ----------------------------------------------------------------------------

  // What stays from before the first step is the model; what stays from the first step on, its
  // state. A gradient has a parameter's size and lives over the end of a step, or is freed in one
  // run with the others.
  void by_lifetimes() {
    if (steps_.all.empty()) return;
    const std::set<int64_t> in_runs = freed_together();
    const int64_t first = first_step_begin();
    std::map<int64_t, int64_t> left;  // of each size, parameters without their share of state
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (!stays(a) || a.from >= first) continue;
      owners_[i] = Owner::parameters;
      left[a.requested] += 2;
    }
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (owners_[i] == Owner::parameters) continue;
      const auto share = left.find(a.requested);
      const bool sized = share != left.end();
      if (stays(a) && steps_.at(a.from) == 0 && sized && share->second > 0) {
        --share->second;
        owners_[i] = Owner::optimizer;
      } else if (stays(a) && is_workspace_size(a.requested)) {
        owners_[i] = Owner::workspace;
      } else if (sized && (in_runs.contains(a.to) || crosses_a_step(a))) {
        owners_[i] = Owner::gradients;
      } else if (a.from >= first) {
        owners_[i] = Owner::activations;
      } else {
        owners_[i] = Owner::temporaries;
      }
    }
  }
  // The first moment at which something is made that the second step makes again and frees.
  int64_t first_step_begin() const {
    std::set<int64_t> repeated;
    const Step& last = steps_.all.back();
    for (const Allocation& a : replay_.allocations)
      if (a.from >= last.begin && a.from <= last.end && !stays(a)) repeated.insert(a.requested);
    for (const Allocation& a : replay_.allocations)
      if (a.from > 0 && !stays(a) && a.requested >= 4096 && repeated.contains(a.requested))
        return a.from;
    return steps_.all.front().begin;
  }
  bool crosses_a_step(const Allocation& a) const {
    return steps_.at(a.from) != steps_.at(std::min(a.to, replay_.last())) || stays(a);
  }
  // The ends that are in runs of frees with nothing made between them.
  std::set<int64_t> freed_together() const {
    constexpr size_t kRun = 8;
    std::set<int64_t> together;
    std::vector<int64_t> run;
    for (size_t i = 0; i < device_.trace.size(); ++i) {
      const Action action = device_.trace[i].action;
      if (action == Action::free_requested) run.push_back(static_cast<int64_t>(i) + 1);
      if (action != Action::alloc) continue;
      if (run.size() >= kRun) together.insert(run.begin(), run.end());
      run.clear();
    }
    return together;
  }

  const DeviceSnapshot& device_;
  const Replay& replay_;
  const Steps& steps_;
  const std::vector<StackFacts>& stacks_;
  std::vector<Owner> owners_;
  std::set<StackId> made_later_;    // stacks of what steps after the first made and kept
  std::map<int64_t, int64_t> age_;  // of blocks, by segment: the driver gives addresses downwards
};

}  // namespace

std::string_view name_of(Owner owner) {
  constexpr std::array<std::string_view, kOwners> kNames{"parameters", "gradients",   "optimizer",
                                                         "casts",      "activations", "temporaries",
                                                         "workspace",  "script",      "unknown"};
  return kNames[static_cast<size_t>(owner)];
}

std::string_view words_of(Owner owner) {
  constexpr std::array<std::string_view, kOwners> kWords{"parameters",
                                                         "gradients",
                                                         "optimizer state",
                                                         "16-bit copies of weights",
                                                         "activations",
                                                         "temporaries of backward and update",
                                                         "workspace of libraries",
                                                         "tensors of the script",
                                                         "unknown"};
  return kWords[static_cast<size_t>(owner)];
}

std::vector<Owner> owners_of(const DeviceSnapshot& device, const Replay& replay, const Steps& steps,
                             const std::vector<StackFacts>& stacks) {
  return Classifier(device, replay, steps, stacks).owners();
}

}  // namespace snug::pytorch
