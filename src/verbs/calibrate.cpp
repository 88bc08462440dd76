// `snug calibrate`: the device of this process, or the wire between the ranks of a job.
#include "machine/ranks.h"
#include "measure/calibrate_wire.h"
#include "measure/calibrator.h"

namespace snug {

CalibrateReport calibrate(const CalibrateOptions& options, const CalibrateObserver& observer) {
  Options of_job;
  of_job.device = options.device;
  of_job.share_gpu = options.share_gpu;
  if (const std::unique_ptr<Job> job = join_job(of_job))
    return job->run([&] { return calibrate_wire(*job, of_job); });
  return calibrate_device(options, observer);
}

}  // namespace snug
