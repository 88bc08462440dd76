#include "arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "config_file.h"
#include "settings/parse.h"
#include "snug/snug.h"

namespace snug::cli {
namespace {

[[noreturn]] void refuse_unknown(const CLI::App& app, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  if (!flag.starts_with("-")) {
    throw usage_error("{} does not know what to do with '{}'", app.get_name(), word)
        .hint(help_hint(app));
  }
  std::vector<std::string> names = option_names(app);
  for (std::string& name : names) name.insert(0, "--");
  throw usage_error("{} has no option '{}'{}", app.get_name(), flag, did_you_mean(flag, names))
      .hint(help_hint(app));
}

// Refuses, before CLI11 converts it, a text that is not a number through and through.
template <typename T>
std::string check_number(const std::string& option, const std::string& text) {
  parse_setting<T>(text, option.substr(2));  // without its dashes
  return "";
}

template <typename T>
CLI::Option* add_option(CLI::App& app, const std::string& name, T& member, std::string help) {
  if constexpr (std::is_same_v<T, bool>) {
    return app.add_flag(name, member, std::move(help));
  } else {
    CLI::Option* option = app.add_option(name, member, std::move(help));
    option->capture_default_str()->take_last();
    if constexpr (std::is_arithmetic_v<T>)
      option->check([name](const std::string& text) { return check_number<T>(name, text); });
    return option;
  }
}

void add_model(CLI::App& app, Options& options) {
  app.add_option("model,--model", options.model,
                 "a built-in name, a config.json, or a Hugging Face directory")
      ->required();
}

// The name of such a value in CLI11's help.
const char* type_word(ValueKind kind) {
  return kind == ValueKind::whole ? "INT" : kind == ValueKind::number ? "FLOAT" : "TEXT";
}

// Text becomes a typed value here, once.
CLI::Option* add_option(CLI::App& app, Options& options, const Option& option) {
  const std::string name = fmt::format("--{}", option.key);
  std::string help(option.help);
  if (option.kind == ValueKind::flag)
    return app.add_flag(name, *option.flag(options), std::move(help));
  return app
      .add_option_function<std::string>(
          name, [&](const std::string& text) { parse_option(option, options, text); },
          std::move(help))
      ->default_str(option.text(options))
      ->type_name(type_word(option.kind))
      ->take_last();
}

void add_named(CLI::App& app, Options& options, Verbs verb) {
  for (const Option& option : all_options())
    if (option.is_for(verb)) add_option(app, options, option);
}

[[noreturn]] void refuse_no_model(const CLI::App& app) {
  throw usage_error("{} needs a MODEL", app.get_name())
      .hint("a built-in name (`snug models` lists them), a config.json, or a model's directory");
}

// CLI11's complaint in our words; only what a person can run into has words of its own.
[[noreturn]] void refuse(const CLI::App& app, const CLI::ParseError& error) {
  std::string what = error.what();
  if (dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    throw bad_input("--config {} is not a file that can be read",
                    app.get_config_ptr()->as<std::string>());
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) refuse_no_model(app);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)  // "--batch: 1 required ..."
    throw usage_error("{} needs a value", what.substr(0, what.find(':'))).hint(help_hint(app));
  std::replace(what.begin(), what.end(), '\n', ' ');
  throw usage_error("{}: {}", app.get_name(), trim(what)).hint(help_hint(app));
}

// Is --NAME among the words of the command line, not only in a file?
bool is_given(const std::vector<std::string>& arguments, std::string_view name) {
  return std::ranges::any_of(arguments, [&](std::string_view word) {
    return word.starts_with("--") && word.substr(2, word.find('=') - 2) == name;
  });
}

// --gpu plans for that GPU, whatever device a file names; but not if the line says otherwise.
void refuse_gpu_on_cpu(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::Option* gpu = app.get_option_no_throw("--gpu");
  if (gpu == nullptr || gpu->count() == 0 || !is_given(arguments, "device")) return;
  if (gpu->as<std::string>().empty()) return;  // a run.toml of a run that named none
  if (app.get_option("--device")->as<std::string>() != "cpu") return;
  throw usage_error("--gpu {} and --device cpu: one plans for a GPU, the other for this CPU",
                    gpu->as<std::string>())
      .hint("leave one of them out");
}

// In a file an empty text takes a path back; on the line it is a variable that was not set.
void refuse_empty(const CLI::App& app, const std::vector<std::string>& arguments) {
  for (const char* name : {"out", "data"}) {
    const CLI::Option* option = app.get_option_no_throw(fmt::format("--{}", name));
    if (option != nullptr && is_given(arguments, name) && option->as<std::string>().empty())
      throw usage_error("--{} is empty", name);
  }
}

// --profile alone is --profile of the default number of steps.
std::vector<std::string> with_values(std::vector<std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "--profile") continue;
    const bool has_value = i + 1 < words.size() && !words[i + 1].empty() &&
                           words[i + 1].find_first_not_of("0123456789") == std::string::npos;
    if (!has_value) words[i] = fmt::format("--profile={}", kProfileSteps);
  }
  return words;
}

}  // namespace

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

void require_model(const CLI::App& app, const Options& options) {
  if (options.model.empty()) refuse_no_model(app);
}

std::vector<std::string> names_given(const CLI::App& app) {
  std::vector<std::string> names{"model"};
  for (const Option& option : all_options()) names.emplace_back(option.key);
  std::erase_if(names, [&](const std::string& name) {
    const CLI::Option* option = app.get_option_no_throw("--" + name);
    return option == nullptr || option->count() == 0;
  });
  return names;
}

std::string help_hint(const CLI::App& app) {
  return fmt::format("`{} --help` lists the options", app.get_name());
}

void add_number(CLI::App& app, const std::string& name, int64_t& member, std::string help) {
  add_option(app, name, member, std::move(help));
}
void add_number(CLI::App& app, const std::string& name, double& member, std::string help) {
  add_option(app, name, member, std::move(help));
}

void add_some_options(CLI::App& app, Options& options, Verbs verb) {
  add_model(app, options);
  add_named(app, options, verb);
}

void add_plan_options(CLI::App& app, Options& options) {
  app.add_option("--model", options.model,
                 "what was trained, to plan changes: a built-in name, a config.json, or a Hugging "
                 "Face directory");
  add_named(app, options, Verbs::doctor);
}

void add_options(CLI::App& app, Options& options, Verbs verb) {
  add_model(app, options);
  add_run_options(app, options, verb);
}

void add_run_options(CLI::App& app, Options& options, Verbs verb) {
  for (const Option& option : all_options()) {
    if (app.get_option_no_throw(fmt::format("--{}", option.key)) != nullptr)
      continue;  // the verb's own
    CLI::Option* added = add_option(app, options, option);
    if (!option.is_for(verb)) added->group("");
  }
  app.set_config("--config", "", "a TOML file of `option = value` lines; the command line wins")
      ->check(ConfigFile::check);
  app.config_formatter(std::make_shared<ConfigFile>(app));
}

bool parse(CLI::App& app, const std::vector<std::string>& arguments) {
  if (!parse_words(app, arguments)) return false;
  refuse_empty(app, arguments);
  refuse_gpu_on_cpu(app, arguments);
  return true;
}

bool parse_words(CLI::App& app, const std::vector<std::string>& given) {
  app.allow_extras();
  const std::vector<std::string> arguments = with_values(given);
  app.add_flag_callback("--quiet", silence_log, "nothing on stderr but errors");
  try {
    app.parse(std::vector(arguments.rbegin(), arguments.rend()));  // CLI11 takes them last first
  } catch (const CLI::CallForHelp&) {
    print_text(app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    refuse(app, error);
  }
  for (const std::string& word : app.remaining()) refuse_unknown(app, word);
  return true;
}

}  // namespace snug::cli
