#include "runtime/host_runner.h"

#include <algorithm>
#include <map>

#include "hal/cpu/cpu_device.h"

namespace snug {
namespace {

void forbid(std::span<std::byte> bytes) {
  forbid_access(bytes.data(), static_cast<int64_t>(bytes.size()));
}
void allow(std::span<std::byte> bytes) {
  allow_access(bytes.data(), static_cast<int64_t>(bytes.size()));
}

}  // namespace

HostRunner::HostRunner(std::span<const BoundProgram> programs, const Storage& storage,
                       const RunHooks& hooks, TestPolicy& policy)
    : programs_(programs), storage_(storage), hooks_(hooks), policy_(policy) {
  int32_t lanes = 1;
  for (const BoundProgram& program : programs_)
    if (program.order) lanes = std::max(lanes, program.order->lanes());
  if (lanes > 1 && !policy_.shuffles()) threads_ = std::make_unique<LaneThreads>(lanes);
}

void HostRunner::measure_spans(SpanLog* log) {
  spans_.reset();
  if (log != nullptr) spans_.emplace(storage_.module(), *log);
}

void HostRunner::run(size_t index) {
  const BoundProgram& program = programs_[index];
  if (!program.order || hooks_.observe) {  // list order is one that lanes allow
    run_in_list_order(index);
  } else if (policy_.shuffles()) {
    run_in_random_order(program);
  } else {
    run_lanes(program);
  }
  if (measures()) spans_->add(index, program, /*batched=*/false);
}

// Lanes set the times of their own ops at once.
void HostRunner::run_op(const BoundProgram& program, size_t at) {
  hooks_.ask_to_write({&program.writes[at], 1});
  if (!measures()) return program.run_on_host(at);
  spans_->begin(at) = spans_->now();
  program.run_on_host(at);
  spans_->end(at) = spans_->now();
}

void HostRunner::run_lanes(const BoundProgram& program) {
  policy_.begin_run();
  threads_->run(*program.order, [&](int32_t op) {
    policy_.pause(*program.order, op);
    run_op(program, static_cast<size_t>(op));
  });
}

void HostRunner::run_in_random_order(const BoundProgram& program) {
  const Module& module = storage_.module();
  const std::vector<int32_t> order = policy_.next_order(*program.order);
  std::map<ValueId, size_t> last_use;  // of locals: the place in `order`
  for (size_t place = 0; place < order.size(); ++place) {
    for_each_access(*program.ops[static_cast<size_t>(order[place])], [&](ValueId id, bool) {
      const ValueId root = module.root(id);
      if (!module[root].shared()) last_use[root] = place;
    });
  }
  std::vector<std::vector<ValueId>> dead(order.size());
  for (const auto& [root, place] : last_use) dead[place].push_back(root);
  for (size_t place = 0; place < order.size(); ++place) {
    run_op(program, static_cast<size_t>(order[place]));
    if (!policy_.poisons()) continue;
    for (ValueId root : dead[place]) storage_.fill(root, TestPolicy::kPoison);
  }
}

void HostRunner::run_in_list_order(size_t index) {
  const BoundProgram& program = programs_[index];
  forbid(storage_.transient_bytes());
  for (size_t at = 0; at < program.ops.size(); ++at) {
    for (const auto& range : program.born(at)) allow(range);
    run_op(program, at);
    if (hooks_.observe) hooks_.observe(index, at);
    policy_.poison(storage_.device(), program.dead(at));
    for (const auto& range : program.dead(at)) forbid(range);
  }
  allow(storage_.transient_bytes());
}

}  // namespace snug
