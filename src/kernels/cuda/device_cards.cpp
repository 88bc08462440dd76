#include "kernels/cuda/device_cards.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace snug::ops {
namespace {

// From the table of compute capabilities in the CUDA programming guide. Blocks of up to 1,024
// threads and 255 registers a thread are the same on all.
constexpr int kFirstWithEarlyLaunches = 90;
constexpr int64_t KiB = 1024;
struct Card {
  std::string_view name;
  int capability, multiprocessors;
  int64_t shared_of_block;
};
constexpr std::array kCards = {
    Card{"a100", 80, 108, 163 * KiB},   Card{"rtx3090", 86, 82, 99 * KiB},
    Card{"rtx4090", 89, 128, 99 * KiB}, Card{"h100", 90, 132, 227 * KiB},
    Card{"b200", 100, 148, 227 * KiB},  Card{"rtx5090", 120, 170, 99 * KiB},
};

const Card& find_card(std::string_view name) {
  std::string names;
  for (const Card& card : kCards) {
    if (card.name == name) return card;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", card.name);
  }
  throw usage_error("SNUG_GPU_AS={} is no card that the switch knows", name)
      .hint(fmt::format("one of {}", names));
}

}  // namespace

DeviceFacts as_card(const DeviceFacts& real, std::string_view card_name) {
  const Card& card = find_card(card_name);
  return {.name = fmt::format("{} as {}", real.name, card.name),
          .multiprocessors = std::min(real.multiprocessors, card.multiprocessors),
          .shared_of_block = std::min(real.shared_of_block, card.shared_of_block),
          .early_launches = real.early_launches && card.capability >= kFirstWithEarlyLaunches};
}

}  // namespace snug::ops
