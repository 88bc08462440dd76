// snug plan MODEL: where every byte will go, before anything runs. snug plan A B: two plans side by
// side, each a model or a recipe in a file.
#include <fmt/format.h>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "deepspeed_file.h"
#include "recipe_words.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {
namespace {

constexpr const char* kName = "snug plan";

// A recipe without a model takes the other's model.
void share_model(Options& a, Options& b) {
  if (a.model.empty()) a.model = b.model;
  if (b.model.empty()) b.model = a.model;
  if (a.model.empty())
    throw usage_error("neither recipe names a model").hint("add a line model = \"NAME\" to one");
}

int plan_two(const std::string& a, const std::string& b, const CLI::App& app) {
  if (a == b) {
    throw usage_error("'{}' and '{}' are the same plan", a, b)
        .hint("give two models, or two files of options: snug plan gpt2 run.toml");
  }
  const std::vector<std::string> given = given_options(app);
  NamedOptions first{a, options_of(a, given, kName)};
  NamedOptions second{b, options_of(b, given, kName)};
  share_model(first.options, second.options);
  for (NamedOptions* one : {&first, &second}) use_deepspeed(app, one->options);
  const CompareReport report = compare(first, second);
  print("{}{}", first.options.json ? report.json : report.table, first.options.json ? "\n" : "");
  return static_cast<int>(ExitCode::ok);
}

int plan_one(const Options& options, bool show_program) {
  const PlanReport report = plan(options, show_program);
  if (options.json) {
    print("{}\n", report.json);
  } else if (show_program) {
    print("{}", report.program);
  } else {
    print("{}", report.table);
  }
  return static_cast<int>(report.fits ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace

int plan_verb(const std::vector<std::string>& arguments) {
  CLI::App app("where every byte will go, before anything runs", kName);
  Options options;
  bool show_program = false;
  std::string other;
  add_options(app, options, Verbs::plan);
  add_deepspeed(app);
  app.add_option("other", other, "a second model, or a file of options: both plans side by side");
  app.add_flag("--program", show_program,
               "print the placed program: every op and value, lifetimes and offsets");
  if (!parse(app, arguments)) return 0;
  if (options.json && show_program) throw usage_error("--json and --program ask for two answers");
  if (!other.empty() && show_program) throw usage_error("--program prints one plan, not two");
  if (!other.empty()) return plan_two(options.model, other, app);
  options.given = names_given(app);
  if (is_recipe(options.model)) options = options_of(options.model, given_options(app), kName);
  if (options.model.empty()) throw usage_error("{} needs a MODEL: the recipe names none", kName);
  use_deepspeed(app, options);
  return plan_one(options, show_program);
}

}  // namespace snug::cli
