// The training loop: allocate once, then step, evaluate and save.
//
//   Samples samples = Samples::for_training(planned.run);
//   TrainReport report = run_training(planned, observer, samples, *device, /*weights=*/nullptr);
#pragma once

#include "hal/device.h"
#include "search/plan_run.h"
#include "snug/snug.h"
#include "train/checkpoint.h"
#include "train/feeder.h"
#include "train/resume.h"

namespace snug {

// Trains as planned, from `weights` where there are any, else from random ones.
// A run that goes on has neither: its state comes from `resumed`.
TrainReport run_training(const PlannedRun& planned, const TrainObserver& observer, Samples& samples,
                         Device& device, const CheckpointReader* weights,
                         const Resumed* resumed = nullptr);

// How this model's tensors may be spelled in a checkpoint.
Spellings spellings_of(const Resolved& run);

}  // namespace snug
