#include "machine/device_memory.h"

#include "base/error.h"
#include "base/units.h"

namespace snug {

DeviceMemory::DeviceMemory(const Resolved& run, const Executor& executor, int64_t staging)
    : run_(run),
      executor_(executor),
      staging_(staging),
      context_(executor.device().context_bytes()) {}

int64_t DeviceMemory::planned_context() const {
  SpaceBytes arenas = arenas_of(executor_.module());
  arenas[Space::host] += staging_;
  return run_.context_with(arenas);
}

// The free memory at planning is no limit of its own: memory that could be allocated fits.
bool DeviceMemory::exceeds_budget(int64_t context) const {
  return run_.budget && !run_.within_free_memory() &&
         executor_.allocated_bytes() + context > *run_.budget + run_.context;
}

// As it was given: a GPU's memory is a budget, too.
std::string DeviceMemory::budget_words() const {
  const Options& o = run_.options;
  if (o.budget.given()) return "--budget " + text(o.budget);
  return fmt::format("--budget {} (--gpu {})", *run_.budget + run_.context, o.gpu);
}

// The plan counted on a context by rule; this is the one that there is.
void DeviceMemory::require_context_within_budget() const {
  if (!exceeds_budget(context_)) return;
  throw does_not_fit(
      "the context on {} (driver, libraries) takes {} where {} were planned for, and with the "
      "arena of {} that is more than {}",
      executor_.device().name(), format_bytes(context_), format_bytes(planned_context()),
      format_bytes(executor_.allocated_bytes()), budget_words())
      .hint(fmt::format("--budget {} keeps the whole inside what you have",
                        *run_.budget + run_.context + planned_context() - context_));
}

std::vector<std::string> DeviceMemory::lines() const {
  const int64_t now = executor_.device().context_bytes();
  if (now == 0) return {};
  const int64_t arena = executor_.allocated_bytes();
  std::vector<std::string> out{
      fmt::format("{}: arena {} + context {} (driver, libraries) = {}; now {} are in use",
                  executor_.device().name(), format_bytes(arena), format_bytes(context_),
                  format_bytes(arena + context_), format_bytes(arena + now))};
  if (exceeds_budget(now))
    out.push_back(fmt::format("that is more than {}: give {} less next time", budget_words(),
                              format_bytes(arena + now - *run_.budget - run_.context)));
  return out;
}

}  // namespace snug
