// Measuring on a GPU: Snug against a peer, and each op against the device's roofline.
//
//   snug::Options o = snug::bench_options();
//   o.model = "qwen2.5-0.5b";
//   o.batch = 32;
//   snug::RooflineReport report = snug::roofline(o);
//
// Both throw a device error where there is no GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "snug/options.h"

namespace snug {

// The defaults of bench: a GPU; weights, gradients and optimizer state in bf16.
Options bench_options();

// --- a peer -------------------------------------------------------------------------------------

// How one trainer did, with the same model, batch, sequence and micro-batches.
struct BenchRow {
  std::string name;  // "snug", "torch eager", "torch.compile"
  double step_ms = 0;
  double tokens_per_s = 0;
  int64_t peak_bytes =
      0;  // of the GPU's memory, as nvidia-smi counts it, less what was used before
  int64_t arena_bytes = 0;  // snug: planned, and measured to be so; 0 for others
  std::string note;         // what it used: versions, attention
  std::string failed;       // why there are no numbers; empty: there are
};

struct PeerReport {
  std::string device;
  int64_t batch = 0, seq = 0, accum = 0;
  std::vector<BenchRow> rows;  // snug first
};

struct Peer {
  std::string python = "python3";
  std::string script;  // bench/torch_gpu.py
  // Those to train: eager, compile (both our model in PyTorch), transformers (Hugging Face's own,
  // compiled).
  std::vector<std::string> modes = {"eager", "compile", "transformers"};
};

struct PeerObserver {
  std::function<void(const PeerReport&)> started;   // without rows
  std::function<void(const std::string&)> running;  // the name of the next row
  std::function<void(const BenchRow&)> measured;
};

// Trains in Snug and then in each mode of the peer, one after another. A peer that fails is
// a row that says so.
PeerReport bench_peer(const Options& options, const Peer& peer, const PeerObserver& observer);

// --- the roofline -------------------------------------------------------------------------------

// The ops of one kind in one program.
struct RooflineRow {
  std::string kind;
  int64_t calls = 0;
  double measured_ms = 0;  // all calls, each in its place
  // All calls: an op bound by arithmetic alone on the device, launched back to back; for any other
  // its bytes at the speed of a copy.
  double roofline_ms = 0;
  bool arithmetic = false;
  double flops = 0, bytes = 0;  // all calls
};

struct RooflineProgram {
  std::string name;
  int64_t times = 1;              // per step, as many as are like it
  std::vector<RooflineRow> rows;  // longest first
  double measured_ms() const;
  double roofline_ms() const;
};

struct RooflineReport {
  std::string device;
  double copy_bytes_per_s = 0;
  int64_t batch = 0, seq = 0, accum = 0;
  int64_t tokens = 0;                     // per step
  std::vector<RooflineProgram> programs;  // a micro-batch, and the update
  double step_ms = 0;                     // whole steps as training runs them; mean
  double ops_ms() const;                  // a step, op by op
  double roofline_ms() const;             // a step
};

RooflineReport roofline(const Options& options);

}  // namespace snug
