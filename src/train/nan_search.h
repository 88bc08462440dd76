// Where a step first leaves the finite numbers: found by running it again and looking at everything
// that every op makes.
//
//   auto site = find_non_finite(executor, [&] { feeder.rewind(); executor.run_step(...); });
//   site->text == "layer 3, linear 'layers.3.mlp.up' in micro_first; its input ... already holds"
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/job.h"
#include "runtime/executor.h"

namespace snug {

struct NonFinite {
  int64_t at = 0;  // ops of the step before it
  int32_t layer = kNoLayer;
  std::string program, op, kind;
  std::string value;   // the output that holds an infinity or a NaN
  std::string source;  // an input of the op that already held one (a weight); else empty

  std::string text() const;
};

// Runs `replay` under observation. None: everything was finite this time.
std::optional<NonFinite> find_non_finite(Executor& executor, const std::function<void()>& replay);

// Where it first appears, in words: of all ranks the one whose op comes first, which the others
// have it from. All ranks ask. `job`: nullptr where there is none.
std::string first_site(const std::optional<NonFinite>& mine, Job* job);

}  // namespace snug
