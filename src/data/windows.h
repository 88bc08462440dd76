// Windows of T inputs at stride T, so that no token is an input twice; each window's last target is
// the next one's first input. Of a stream that says which tokens are to be learned, windows without
// a target that counts are left out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/rows.h"
#include "data/token_stream.h"

namespace snug {

class Windows : public Rows {
 public:
  // `learn_all`: what the stream says is not to be learned, too. Throws bad_input when the stream
  // is shorter than one window, and where no target counts.
  Windows(std::shared_ptr<const TokenStream> stream, int64_t T, bool learn_all = false);

  int64_t count() const override { return count_; }
  int64_t T() const override { return T_; }
  int64_t targets(int64_t row) const override;
  void fill(int64_t row, const RowSpans& out) const override;
  std::string text() const override;
  std::string noun() const override { return "window"; }
  DataFingerprint fingerprint() const override;

 private:
  void find_learned();

  std::shared_ptr<const TokenStream> stream_;
  int64_t T_ = 0;
  int64_t count_ = 0;
  bool masked_ = false;
  // Where it is: which windows there are, and how many of their targets count.
  std::vector<int64_t> kept_;
  std::vector<int32_t> targets_;
};

}  // namespace snug
