#include "techniques/accumulate/settings.h"

#include "settings/setting_text.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr std::string_view kGroups = "groups:";

}  // namespace

MicroOrder MicroOrder::parse(std::string_view text, std::string_view option) {
  if (text.starts_with(kGroups)) {
    const std::string_view number = text.substr(kGroups.size());
    MicroOrder order{.kind = Kind::groups};
    if (!read_number(number, order.group) || order.group < 1)
      throw usage_error("--{} '{}': '{}' is not a number of micro-batches", option, text, number);
    return order;
  }
  require_word(text, option, {"auto", "horizontal", "vertical", "groups:K"});
  return {.kind = text == "vertical" ? Kind::vertical : Kind::horizontal};
}

std::string text(const MicroOrder& order) {
  switch (order.kind) {
    case MicroOrder::Kind::horizontal:
      return "horizontal";
    case MicroOrder::Kind::vertical:
      return "vertical";
    case MicroOrder::Kind::groups:
      break;
  }
  return fmt::format("{}{}", kGroups, order.group);
}

std::vector<Option> accumulate_options() {
  return {
      option_row(
          "batch", &Options::batch,
          "sequences per micro-batch; within a budget and without --accum, per step, in as many "
          "micro-batches as it takes",
          {.verbs = Verbs::runs | Verbs::eval | Verbs::doctor, .settled = true}),
      option_row("seq", &Options::seq, "tokens per sequence (0: 1024, or what the model can take)",
                 {.verbs = Verbs::runs | Verbs::eval | Verbs::doctor}),
      option_row("accum", &Options::accum, "micro-batches per step (0: 1, or what fits the budget)",
                 {.verbs = Verbs::runs | Verbs::doctor, .settled = true}),
      option_row(
          "global-batch", &Options::global_batch,
          "sequences per step in place of --accum; the last micro-batch may be short (0: batch x "
          "accum)",
          {.settled = true}),
      option_row(
          "micro-order", &Options::micro_order,
          "auto | horizontal | vertical | groups:K: micro-batches one after another, or all (K) of "
          "them through a layer before the next (auto: horizontal, or as the search finds where "
          "values move)",
          {.settled = true})};
}

}  // namespace snug
