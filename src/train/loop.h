// The training loop: allocate once, then step, evaluate and save.
//
//   Samples samples = Samples::for_training(planned.run);
//   TrainReport report = run_training(planned, observer, samples, *device, {.weights = &weights});
#pragma once

#include "hal/device.h"
#include "search/plan_run.h"
#include "snug/snug.h"
#include "train/checkpoint.h"
#include "train/feeder.h"
#include "train/job_links.h"
#include "train/resume.h"

namespace snug {

// What a run begins with; where there is nothing, with random numbers.
struct Origin {
  const CheckpointReader* weights = nullptr;  // the model's
  const CheckpointReader* adapter = nullptr;
  const Resumed* resumed = nullptr;  // the rest goes on from there: all but what is frozen
};

// Trains as planned; as a rank of a job where `job` is not nullptr.
TrainReport run_training(const PlannedRun& planned, const TrainObserver& observer, Samples& samples,
                         Device& device, const Origin& origin, JobLinks* job = nullptr);

}  // namespace snug
