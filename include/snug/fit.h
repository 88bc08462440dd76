// The largest that fits, by planning and not by crashing.
//
//   snug::Options o;
//   o.model = "llama-7b";
//   o.gpu = "h100";  // or o.budget = "24GiB"
//   snug::FitReport report = snug::fit(o, "batch");
//   report.levels[0].batch;   std::puts(report.table.c_str());
//
// Throws does_not_fit, with what 1 would need, where nothing fits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "snug/options.h"

namespace snug {

// The largest run that fits, as one plan. --of batch and --of seq have one; --of model has three.
struct FitLevel {
  std::string name;   // --of model: "recompute only"
  std::string flags;  // to give with the options: "--batch 12", "--precision bf16"
  std::string model;  // "llama-7b:2304x18" where the model was scaled; empty: nothing fits
  int64_t batch = 0, seq = 0, accum = 0;
  int64_t parameters = 0, layers = 0, width = 0;
  int64_t arena_bytes = 0;  // the planned peak
  double step_seconds = 0;  // modelled
  double tokens_per_s = 0;
  std::string recompute;              // what backward recomputes, in words
  std::string attention;              // on a GPU: whose kernels compute it, in words
  std::string next;                   // one more: "--batch 13", "llama-7b:2432x19"
  std::optional<int64_t> next_bytes;  // what that needs, at least; none: bytes are not the limit
  std::string limit;                  // what is, then: "gpt2 has 1,024 positions"
};

struct FitReport {
  std::string of;      // batch, seq or model
  std::string device;  // that it is for: "cpu", "NVIDIA H200"
  int64_t budget_bytes = 0;
  int64_t context_bytes = 0;  // of these: what a GPU's driver and libraries take
  std::string times_from;     // what the times rest on
  std::vector<FitLevel> levels;
  std::string table;  // for people
  std::string json;   // for programs: one object
};

// `trying` is called before each plan, with what is tried: "--batch 64".
FitReport fit(const Options& options, const std::string& of,
              const std::function<void(const std::string&)>& trying = {});

}  // namespace snug
