// Windows of T inputs at stride T, so that no token is an input twice; each window's last target is
// the next one's first input.
#pragma once

#include <memory>
#include <string>

#include "train/rows.h"
#include "train/token_stream.h"

namespace snug {

class Windows : public Rows {
 public:
  // Throws bad_input when the stream is shorter than one window.
  Windows(std::shared_ptr<const TokenStream> stream, int64_t T);

  int64_t count() const override { return count_; }
  int64_t T() const override { return T_; }
  int64_t targets(int64_t) const override { return T_; }
  void fill(int64_t row, const RowSpans& out) const override;
  std::string text() const override;
  std::string noun() const override { return "window"; }
  DataFingerprint fingerprint() const override;

 private:
  std::shared_ptr<const TokenStream> stream_;
  int64_t T_ = 0;
  int64_t count_ = 0;
};

}  // namespace snug
