// --precision, --master, --grad-dtype and --loss-scale.
#pragma once

#include "settings/setting_text.h"

namespace snug {

// Of weights, activations or gradients.
enum class ComputeType : uint8_t { fp32, bf16, fp16 };
template <>
inline constexpr auto kWords<ComputeType> = std::to_array<Word<ComputeType>>(
    {{"fp32", ComputeType::fp32}, {"bf16", ComputeType::bf16}, {"fp16", ComputeType::fp16}});

// Have 16-bit weights an fp32 copy that the optimizer works on?
enum class Master : uint8_t { fp32, none };
template <>
inline constexpr auto kWords<Master> = std::to_array<Word<Master>>({{"fp32", Master::fp32},
                                                                    {"none", Master::none}});

// Multiplies the loss so that small gradients survive in fp16. A step that overflows is skipped; a
// dynamic scale then shrinks, and grows again after `interval` clean steps.
struct LossScale {
  double start = 1;  // 1 and not dynamic: no scaling
  bool dynamic = false;
  int64_t interval = 1000;
  double growth = 2;
  double backoff = 0.5;
  double floor = 1;

  bool on() const { return dynamic || start != 1; }
  friend bool operator==(const LossScale&, const LossScale&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // none | dynamic[:START] | NUMBER
  static LossScale parse(std::string_view text, std::string_view option);
};
std::string text(const LossScale& scale);

}  // namespace snug
