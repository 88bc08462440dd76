// Progress of reading or writing a model: reported five times a second at most, and not at all
// where it is quick.
//
//   TransferProgress progress("reading weights", saved_bytes(module), observer.doing);
//   load_model(module, progress.into(pieces), weights);
//   progress.summary();   // "14.19 GiB in 7.1 s"; empty below a second
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "report/train_report.h"

namespace snug {

class TransferProgress {
 public:
  // `now`: seconds since some moment; tests have a clock of their own.
  TransferProgress(std::string what, int64_t total, std::function<void(const std::string&)> doing,
                   std::function<double()> now = steady_seconds)
      : what_(std::move(what)), total_(total), doing_(std::move(doing)), now_(std::move(now)) {
    if (doing_) doing_(what_);
  }

  // pieces_of and into of checkpoint/checkpoint.h, counted. This outlives them.
  PiecesOf pieces_of(PiecesOf pieces) {
    return [this, pieces = std::move(pieces)](const ValuePart& part, const LookAtPiece& visit) {
      pieces(part, [&](std::span<const std::byte> next) {
        visit(next);
        add(next.size());
      });
    };
  }
  MakePieces into(ValuePieces& pieces) {
    return [&](const ValuePart& part, const MakePiece& fill) {
      pieces.make(part, [&](std::span<std::byte> next) {
        fill(next);
        add(next.size());
      });
    };
  }

  // So many more bytes are done.
  void add(size_t bytes) {
    done_ += static_cast<int64_t>(bytes);
    const double seconds = seconds_since_start();
    if (!doing_ || seconds < said_ + kPause) return;
    said_ = seconds;
    doing_(what_ + ": " + transfer_text(done_, total_, seconds));
  }

  std::string summary() const {
    const double seconds = seconds_since_start();
    return seconds < 1 ? "" : fmt::format("{} in {}", format_bytes(done_), format_seconds(seconds));
  }

 private:
  static constexpr double kPause = 0.2;

  static double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  double seconds_since_start() const { return now_() - start_; }

  std::string what_;
  int64_t total_ = 0, done_ = 0;
  std::function<void(const std::string&)> doing_;
  std::function<double()> now_;
  double start_ = now_();
  double said_ = 0;  // seconds since the start
};

}  // namespace snug
