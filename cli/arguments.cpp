#include "arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/text.h"

namespace snug::cli {
namespace {

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

[[noreturn]] void refuse_unknown(const CLI::App& app, const std::string& word) {
  const auto names = option_names(app);
  const std::string flag = word.substr(0, word.find('='));
  if (flag.starts_with("-")) {
    throw usage_error("{} has no option '{}'{}", app.get_name(), flag, did_you_mean(flag, names))
        .hint(fmt::format("`{} --help` lists them", app.get_name()));
  }
  throw usage_error("{} does not know what to do with '{}'", app.get_name(), word)
      .hint("it takes one MODEL and options");
}

}  // namespace

void add_options(CLI::App& app, Options& options, OptionUse use) {
  app.add_option("model,--model", options.model,
                 "a built-in name, a config.json, or a Hugging Face directory")
      ->required();
  each_option(options,
              [&](std::string_view key, auto& member, std::string_view help, OptionUse belongs) {
                if (belongs == OptionUse::train && use != OptionUse::train) return;
                const std::string name = fmt::format("--{}", key);
                if constexpr (std::is_same_v<std::decay_t<decltype(member)>, bool>) {
                  app.add_flag(name, member, std::string(help));
                } else {
                  app.add_option(name, member, std::string(help))->capture_default_str();
                }
              });
  app.set_config("--config", "", "a file of `option = value` lines; the command line wins");
  app.allow_config_extras(CLI::config_extras_mode::error);
}

bool parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them last first
  app.allow_extras();
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::FileError& error) {
    throw bad_input("the config file cannot be read: {}", error.what());
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    throw usage_error("{}: {}", app.get_name(), trim(what))
        .hint(fmt::format("`{} --help` lists the options", app.get_name()));
  }
  for (const std::string& word : app.remaining()) refuse_unknown(app, word);
  return true;
}

}  // namespace snug::cli
