// What `snug ladder` says: a row for each rung, with a bar for its bytes, as soon as it is
// measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "snug/snug.h"

namespace snug {

class LadderTable {
 public:
  // `report` has every rung as planned: the widest number sets the columns.
  LadderTable(const LadderReport& report, const Options& options);

  std::string head() const;
  // Rungs come in order: the first is the baseline of the ratios.
  std::string row(const Rung& rung);
  std::string foot() const;

 private:
  std::string columns(std::string_view name, std::string_view bar, std::string_view planned,
                      std::string_view measured, std::string_view time, std::string_view ratio,
                      std::string_view loss) const;

  std::string title_, baseline_, all_together_;
  bool computes_ = true;
  std::optional<double> baseline_seconds_;
  bool has_rows_ = false;
  int64_t largest_ = 1;
  int byte_columns_ = 0;
  int bar_columns_ = 0;
};

std::string ladder_json(const LadderReport& report, const Options& options);

}  // namespace snug
