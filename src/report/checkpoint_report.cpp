#include "report/checkpoint_report.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"

namespace snug {

std::string checkpoints_table(std::span<const CheckpointLine> checkpoints) {
  std::string out =
      fmt::format("{:<16}{:>12}{:>14}  {:<10}{}\n", "checkpoint", "steps", "bytes", "state", "run");
  for (const CheckpointLine& c : checkpoints) {
    const std::string steps = c.steps > 0 ? fmt::format("{} of {}", c.step, c.steps) : "";
    const char* state = !c.wrong.empty() ? "damaged" : c.verified ? "verified" : "complete";
    out += fmt::format("{:<16}{:>12}{:>14}  {:<10}{}{}\n", c.name, steps, format_bytes(c.bytes),
                       state, c.recipe, c.latest ? "  <- latest" : "");
    if (!c.wrong.empty()) out += fmt::format("  {}\n", c.wrong);
  }
  return out;
}

std::string checkpoints_json(std::span<const CheckpointLine> checkpoints) {
  Json out = Json::array();
  for (const CheckpointLine& c : checkpoints) {
    out.push_back({{"path", c.path},
                   {"step", c.step},
                   {"steps", c.steps},
                   {"bytes", c.bytes},
                   {"run", c.run},
                   {"recipe", c.recipe},
                   {"latest", c.latest},
                   {"verified", c.verified},
                   {"wrong", or_null(c.wrong)}});
  }
  return out.dump(2);
}

}  // namespace snug
