#include "pytorch/remedies.h"

#include <algorithm>
#include <functional>
#include <set>

#include "pytorch/layers.h"

namespace snug::pytorch {
namespace {

constexpr int64_t kChunks = 8;  // of a loss in parts

class Simulation {
 public:
  Simulation(const Snapshot& snapshot, const Replay& replay, const Steps& steps,
             const std::vector<StackFacts>& stacks, const std::vector<Owner>& owners)
      : snapshot_(snapshot), replay_(replay), steps_(steps), stacks_(stacks), owners_(owners) {
    for (size_t i = 0; i < owners.size(); ++i)
      if (owners[i] == Owner::parameters) parameter_sizes_.insert(replay.allocations[i].requested);
  }

  std::vector<Remedy> remedies() {
    checkpointing();
    chunked_loss();
    scaled("half the batch", "batch_size // 2, gradient accumulation x 2",
           [&](size_t i) { return grows_with_batch(i) ? 0.5 : 1.0; });
    scaled("optimizer state in 8 bits", "bitsandbytes.optim.AdamW8bit, where its moments are fp32",
           [&](size_t i) { return owners_[i] == Owner::optimizer ? 0.26 : 1.0; });
    scaled("optimizer state offloaded", "offload to the host, or ZeRO over many GPUs",
           [&](size_t i) { return owners_[i] == Owner::optimizer ? 0.0 : 1.0; });
    scaled("fused optimizer", "torch.optim.AdamW(..., fused=True): no temporaries",
           [&](size_t i) { return is_of_update(i) ? 0.0 : 1.0; });
    drop_gradients_early();
    std::ranges::stable_sort(found_, std::greater(), &Remedy::saves);
    return std::move(found_);
  }

 private:
  struct Life {
    int64_t from, to, bytes;
  };

  const Allocation& at(size_t i) const { return replay_.allocations[i]; }
  bool is_of_update(size_t i) const {
    return owners_[i] == Owner::temporaries && stacks_[at(i).stack].phase == Phase::optimizer;
  }
  // A temporary of a weight's gradient does not.
  bool grows_with_batch(size_t i) const {
    if (owners_[i] == Owner::activations) return true;
    return owners_[i] == Owner::temporaries && !is_of_update(i) && !is_weight_sized(at(i));
  }
  bool is_weight_sized(const Allocation& a) const {
    return parameter_sizes_.contains(a.requested) || parameter_sizes_.contains(2 * a.requested);
  }

  // The most bytes of all lives together.
  void propose(std::string name, std::string how, const std::vector<Life>& lives) {
    std::vector<int64_t> bytes(static_cast<size_t>(replay_.moments) + 1);
    for (const Life& life : lives) {
      if (life.from >= life.to) continue;
      bytes[static_cast<size_t>(life.from)] += life.bytes;
      bytes[static_cast<size_t>(std::min(life.to, replay_.moments))] -= life.bytes;
    }
    int64_t now = 0, peak = 0;
    for (const int64_t change : bytes) peak = std::max(peak, now += change);
    const int64_t saves = replay_.peak_allocated - peak;
    if (saves * 100 > replay_.peak_allocated)
      found_.push_back({std::move(name), std::move(how), peak, saves});
  }
  std::vector<Life> lives_as_they_are() const {
    std::vector<Life> lives;
    for (const Allocation& a : replay_.allocations) lives.push_back({a.from, a.to, a.bytes});
    return lives;
  }
  void scaled(const char* name, const char* how, const std::function<double(size_t)>& factor) {
    std::vector<Life> lives = lives_as_they_are();
    for (size_t i = 0; i < lives.size(); ++i)
      lives[i].bytes = static_cast<int64_t>(static_cast<double>(lives[i].bytes) * factor(i));
    propose(name, how, lives);
  }

  // A layer keeps its output, and makes the rest again when backward comes to it: that
  // is when the first of it is freed.
  void checkpointing() {
    std::vector<Life> lives = lives_as_they_are();
    for (const LayerCall& call : layer_calls(snapshot_, replay_, steps_, stacks_, owners_)) {
      const int64_t backward = end_of_forward(call.end);
      std::vector<size_t> kept;
      for (const size_t i : call.made) {
        const bool of_layer = owners_[i] == Owner::activations || owners_[i] == Owner::casts;
        if (of_layer && at(i).to > backward && !stacks_[at(i).stack].recomputed) kept.push_back(i);
      }
      if (kept.size() < 2) continue;
      int64_t again = replay_.moments;
      for (const size_t i : kept) again = std::min(again, at(i).to);
      const size_t output = output_of(call);
      lives[output].to = std::max(lives[output].to, again);
      for (const size_t i : kept) {
        if (i == output) continue;
        const int64_t end = owners_[i] == Owner::casts ? backward : call.end;
        if (again <= end) continue;
        if (backward != replay_.peak) lives.push_back({again, at(i).to, at(i).bytes});
        lives[i].to = end;
      }
    }
    propose("checkpointing", "model.gradient_checkpointing_enable(), or torch.utils.checkpoint",
            lives);
  }
  // The last that it made and that it leaves to the next.
  size_t output_of(const LayerCall& call) const {
    const auto output = std::ranges::find_if(call.made.rbegin(), call.made.rend(), [&](size_t i) {
      return at(i).to > call.end && owners_[i] == Owner::activations;
    });
    return output == call.made.rend() ? call.made.back() : *output;
  }
  // The first moment at which backward makes something; the peak, where the trace does not get there.
  int64_t end_of_forward(int64_t moment) const {
    const auto later = std::ranges::upper_bound(replay_.allocations, moment, {}, &Allocation::from);
    for (auto a = later; a != replay_.allocations.end(); ++a) {
      const Phase phase = stacks_[a->stack].phase;
      if (phase == Phase::backward || phase == Phase::bare) return a->from;
    }
    return std::max(moment, replay_.peak);
  }

  // What is as large as the largest of the loss, or a half or twice of it, is logits in one type or
  // another.
  void chunked_loss() {
    int64_t logits = 0;
    for (size_t i = 0; i < owners_.size(); ++i)
      if (owners_[i] == Owner::activations && stacks_[at(i).stack].loss)
        logits = std::max(logits, at(i).requested);
    if (logits < 1 << 20) return;
    std::vector<Life> lives = lives_as_they_are();
    int64_t first = 0, last = 0;  // moments of the logits of one step
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (!grows_with_batch(i) || !is_logits(at(i).requested, logits)) continue;
      lives[i].bytes /= kChunks;
      if (at(i).from > last) {
        add_head_gradients(first, last, lives);
        first = at(i).from;
      }
      last = std::max(last, std::min(at(i).to, replay_.last()));
    }
    add_head_gradients(first, last, lives);
    propose("chunked loss", "hidden states to logits and loss in 8 parts, each checkpointed",
            lives);
  }
  static bool is_logits(int64_t bytes, int64_t logits) {
    const double ratio = static_cast<double>(bytes) / static_cast<double>(logits);
    return std::ranges::any_of(std::array{0.5, 1.0, 2.0},
                               [&](double r) { return ratio > 0.98 * r && ratio < 1.02 * r; });
  }
  // Every part has a gradient of the head's weight, which is added to that of the parts before it.
  void add_head_gradients(int64_t first, int64_t last, std::vector<Life>& lives) const {
    int64_t head = 0;
    bool casts = false;
    for (size_t i = 0; i < owners_.size(); ++i) {
      if (owners_[i] == Owner::parameters) head = std::max(head, at(i).bytes);
      casts |= owners_[i] == Owner::casts;
    }
    if (last > first) lives.push_back({end_of_forward(first), last, casts ? head / 2 : head});
  }

  void drop_gradients_early() {
    std::vector<Life> lives = lives_as_they_are();
    for (size_t i = 0; i < lives.size(); ++i) {
      const size_t step = steps_.at(at(i).from);
      if (owners_[i] == Owner::gradients && step < steps_.all.size())
        lives[i].to = std::min(lives[i].to, steps_.all[step].end);
    }
    propose("gradients dropped after the update", "optimizer.zero_grad(set_to_none=True) there",
            lives);
  }

  const Snapshot& snapshot_;
  const Replay& replay_;
  const Steps& steps_;
  const std::vector<StackFacts>& stacks_;
  const std::vector<Owner>& owners_;
  std::set<int64_t> parameter_sizes_;
  std::vector<Remedy> found_;
};

}  // namespace

std::vector<Remedy> remedies_of(const Snapshot& snapshot, const Replay& replay, const Steps& steps,
                                const std::vector<StackFacts>& stacks,
                                const std::vector<Owner>& owners) {
  return Simulation(snapshot, replay, steps, stacks, owners).remedies();
}

}  // namespace snug::pytorch
