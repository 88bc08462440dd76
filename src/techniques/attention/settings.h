// --attention: how much of the scores exists at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/attention/attention_kind.h"

namespace snug {

struct AttentionChoice {
  ops::AttentionKind kind = ops::AttentionKind::flash;
  int64_t chunk = 0;  // queries, where chunked; 0: as the device likes

  friend bool operator==(const AttentionChoice&, const AttentionChoice&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  static AttentionChoice parse(std::string_view text, std::string_view option);
};

std::string text(const AttentionChoice& attention);

}  // namespace snug
