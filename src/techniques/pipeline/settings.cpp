#include "techniques/pipeline/settings.h"

#include "base/units.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

constexpr std::string_view kInterleaved = "interleaved:";
constexpr std::string_view kZeroBubble = "zero-bubble";

}  // namespace

StageOrder StageOrder::parse(std::string_view text, std::string_view option) {
  constexpr int64_t kMost = 10'000;
  if (!text.starts_with(kInterleaved)) {
    require_word(text, option, {"auto", "1f1b", "interleaved:V", "zero-bubble"});
    return {.schedule = text == kZeroBubble ? PipelineSchedule::zero_bubble : PipelineSchedule{}};
  }
  StageOrder order;
  if (!read_number(text.substr(kInterleaved.size()), order.chunks) || order.chunks < 2 ||
      order.chunks > kMost)
    throw usage_error("--{} {}: it is interleaved:V, with 2 to {} chunks of layers", option, text,
                      format_exact(kMost))
        .hint("interleaved:2 is usual");
  return order;
}

std::string text(const StageOrder& order) {
  if (order.chunks > 1) return fmt::format("{}{}", kInterleaved, order.chunks);
  return order.schedule == PipelineSchedule::zero_bubble ? std::string(kZeroBubble) : "1f1b";
}

std::vector<Option> mesh_options() {
  return {
      option_row(
          "mesh", &Options::mesh,
          "pp=P,dp=D,tp=T: how ranks share the work: P pipeline stages, D that read other "
          "samples, T "
          "that share each matrix; an axis that is left out is 1, or for dp what the ranks leave",
          {.on_resume = OnResume::mesh}),
      option_row("tp", &Options::tp,
                 "ranks that share each matrix, as tp of --mesh (0: 1, or as --mesh says)",
                 {.on_resume = OnResume::mesh}),
      option_row("pp", &Options::pp, "pipeline stages, as pp of --mesh (0: 1, or as --mesh says)",
                 {.on_resume = OnResume::mesh}),
      option_row("pp-schedule", &Options::pp_schedule,
                 "auto | 1f1b | interleaved:V | zero-bubble: the order of a stage's micro-batches; "
                 "interleaved: a stage has V chunks of layers; zero-bubble: weight gradients "
                 "fill the pipeline bubble; both take memory (auto: 1f1b, or as the search finds)",
                 {.on_resume = OnResume::exact, .settled = true}),
      option_row(
          "ranks", &Options::ranks,
          "processes that train together, started on this machine (0: 1, or as many as mpirun, "
          "torchrun or srun has started)",
          {.on_resume = OnResume::mesh}),
      option_row("share-gpu", &Options::share_gpu,
                 "more ranks than GPUs: several use one, for tests",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("log-ranks", &Options::log_ranks, "every rank prints, not only rank 0",
                 {.verbs = Verbs::train, .on_resume = OnResume::free, .of_host = true})};
}

}  // namespace snug
