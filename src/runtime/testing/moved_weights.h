// A random program over device and host for every backend: weights live on the host, are fetched on
// one lane, computed with on another, kept on the host for a while or written back on a third. What
// a run leaves depends on all before it. With a disk, one of them lives there.
//
//   MovedWeights f(seed, {.backend = Backend::cuda});
//   Executor executor(f.module, *device);
//   f.fill(executor);
//   f.run(executor, 0);
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/verifier.h"
#include "ops/basic/add.h"
#include "ops/basic/copy.h"
#include "ops/basic/multiply.h"
#include "passes/passes.h"
#include "placement/placement.h"
#include "runtime/executor.h"

namespace snug::testing_ops {

struct MovedWeightsOptions {
  Backend backend = Backend::cpu;
  int64_t elements = 64;
  bool one_lane = false;  // the same ops in list order
  bool disk = false;      // the executor needs a directory then
};

class MovedWeights {
 public:
  using Options = MovedWeightsOptions;

  explicit MovedWeights(unsigned seed, const Options& options = {})
      : options_(options), random_(seed) {
    Builder b(module, "p");
    on_device_ = {x};
    on_host_ = weights;
    if (options.disk) {
      on_host_.pop_back();
      on_disk_ = {weights.back()};
      module[weights.back()].space = Space::disk;
    }
    for (int i = 0; i < 60; ++i) add_op(b, "op" + std::to_string(i));
    for (size_t i = 0; i < weights.size(); ++i)
      write(b, "back" + std::to_string(i), on_device_[on_device_.size() - 1 - i], weights[i]);
    ValueId sum = on_device_.back();
    for (size_t i = 1; i < 5; ++i)
      sum = mean(b, "sum" + std::to_string(i), sum, on_device_[on_device_.size() - 1 - i]);
    write(b, "end", sum, y);
    if (options.one_lane) {
      for (Op& op : module.program("p").ops) op.lane = "compute";
    }
    module.step = {{1, {"p"}}};
    schedule(module, options.backend);
    place(module);
    verify(module, options.backend);
  }

  // Everything that a run reads.
  void fill(Executor& executor) const {
    send(executor, half, [](size_t) { return 0.5F; });
    for (size_t w = 0; w < weights.size(); ++w)
      send(executor, weights[w], [&](size_t i) { return static_cast<float>((i + 7 * w) % 1001); });
  }
  // The `run`-th of them, on an x of its own. It may not have ended when this returns.
  void run(Executor& executor, int run) const {
    send(executor, x, [&](size_t i) {
      return static_cast<float>((i * 31 + 977 * static_cast<size_t>(run)) % 2003);
    });
    executor.run("p");
  }
  // All that it left.
  std::vector<float> result(const Executor& executor) const {
    std::vector<float> out;
    for (const ValueId id : {y, weights[0], weights[1], weights[2]}) {
      std::vector<float> part(static_cast<size_t>(options_.elements));
      executor.read(id, std::as_writable_bytes(std::span(part)));
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

 private:
  template <typename Fn>
  void send(Executor& executor, ValueId id, const Fn& element) const {
    std::vector<float> all(static_cast<size_t>(options_.elements));
    for (size_t i = 0; i < all.size(); ++i) all[i] = element(i);
    executor.write(id, std::as_bytes(std::span(all)));
  }
  ValueId shared(const char* name, Scope scope, Space space = Space::device) {
    const ValueId id =
        add_shared(module, name, {Dtype::f32, {options_.elements}}, Category::buffers, scope);
    module[id].space = space;
    return id;
  }
  ValueId recent(const std::vector<ValueId>& from) {
    return from[from.size() - 1 - random_() % std::min<size_t>(from.size(), 6)];
  }
  // Halved, so that nothing grows from run to run.
  ValueId mean(Builder& b, const std::string& name, ValueId a, ValueId c) const {
    return ops::multiply(b, name + ".mean", ops::add(b, name, a, c), half);
  }
  void write(Builder& b, const std::string& name, ValueId from, ValueId into) const {
    if (module[into].space == Space::disk) {
      from = ops::copy(b, name + ".unload", from, Space::host);
      b.last().lane = "copy_out";
    }
    b.emit_into(ops::copy_def, name, {from}, into);
    if (module[into].space == Space::host) b.last().lane = "copy_out";
    if (module[into].space == Space::disk) b.last().lane = "disk_out";
  }
  void add_op(Builder& b, const std::string& name) {
    switch (random_() % (options_.disk ? 8 : 6)) {
      case 6:
        on_host_.push_back(ops::copy(b, name, recent(on_disk_), Space::host));
        b.last().lane = "disk_in";
        if (!computed_.empty() && random_() % 2 == 0) b.last().after = {computed_.back()};
        return;
      case 7:
        on_disk_.push_back(ops::copy(b, name, recent(on_host_), Space::disk));
        b.last().lane = "disk_out";
        return;
      case 0:
      case 1:
        on_device_.push_back(ops::copy(b, name, recent(on_host_)));
        b.last().lane = "copy_in";
        if (!computed_.empty() && random_() % 2 == 0) b.last().after = {computed_.back()};
        return;
      case 2:
        on_host_.push_back(ops::copy(b, name, recent(on_device_), Space::host));
        b.last().lane = "copy_out";
        return;
      case 3:
        on_device_.push_back(ops::copy(b, name, recent(on_device_)));
        break;
      default:
        on_device_.push_back(mean(b, name, recent(on_device_), recent(on_device_)));
    }
    computed_.push_back(name);
  }

  Options options_;
  std::mt19937 random_;
  std::vector<ValueId> on_device_, on_host_, on_disk_;
  std::vector<std::string> computed_;

 public:
  Module module{.name = "moved weights"};
  ValueId x = shared("x", Scope::step);
  ValueId half = shared("half", Scope::persistent);
  ValueId y = shared("y", Scope::step);
  std::vector<ValueId> weights = {shared("w0", Scope::persistent, Space::host),
                                  shared("w1", Scope::persistent, Space::host),
                                  shared("w2", Scope::persistent, Space::host)};
};

}  // namespace snug::testing_ops
