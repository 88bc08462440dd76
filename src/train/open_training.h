// All that a training needs before its first byte is allocated: checked, planned and opened, cheap
// checks first.
//
//   OpenTraining open(options, observer, job);
//   Training training(*open.planned, observer, *open.samples, *open.device, open.origin());
#pragma once

#include <memory>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/resume.h"
#include "comm/job.h"
#include "data/samples.h"
#include "hal/device.h"
#include "machine/threads.h"
#include "runtime/job_links.h"
#include "search/plan_run.h"
#include "snug/snug.h"
#include "train/training.h"

namespace snug {

struct OpenTraining {
  // As a rank of `job`, or alone where it is nullptr.
  OpenTraining(const Options& options, const TrainObserver& observer, Job* job);

  Origin origin() const {
    return {.weights = weights.get(),
            .adapter = adapter.get(),
            .resumed = resumed ? &*resumed : nullptr};
  }

  ThreadsOfRun threads;
  std::optional<Resumed> resumed;
  std::optional<OutputDirectory> out;  // of rank 0
  std::optional<PlannedRun> planned;
  std::unique_ptr<Device> device;  // none: "null"
  std::optional<Samples> samples;
  std::unique_ptr<CheckpointReader> weights, adapter;
  std::optional<JobLinks> links;
};

}  // namespace snug
