// `snug profile`: a short training whose steps are measured, and nothing kept of it.
#include <algorithm>

#include "base/error.h"
#include "snug/snug.h"

namespace snug {

ProfileReport profile(const Options& options, const TrainObserver& observer) {
  constexpr int64_t kOtherSteps = 9;  // steps before and after, some of which it is compared with
  Options o = options;
  if (!o.resume.empty() || !o.out.empty())
    throw usage_error("profile trains nothing that could be kept: --{} has no use",
                      o.resume.empty() ? "out" : "resume")
        .hint("`snug train --profile` measures a run that is; --profile-dir is for the files");
  if (o.profile == 0) o.profile = kProfileSteps;
  if (std::ranges::find(o.given, "steps") == o.given.end()) o.steps = o.profile + kOtherSteps;
  if (o.data == "auto") o.data = "synthetic";
  if (!o.tune) o.tune = Tune::quick;
  TrainReport report = train(o, observer);
  if (!report.profile) throw device_error("the run ended before a step was measured");
  return std::move(*report.profile);
}

}  // namespace snug
