#include "recipe_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace snug::cli {

bool is_recipe(const std::string& word) { return word.ends_with(".toml"); }

std::vector<std::string> given_options(const CLI::App& app) {
  std::vector<std::string> words;
  for (const Option& known : all_options()) {
    const CLI::Option* option = app.get_option_no_throw(fmt::format("--{}", known.key));
    if (option != nullptr && option->count() > 0)
      words.push_back(fmt::format("--{}={}", known.key, option->results().back()));
  }
  return words;
}

Options options_of(const std::string& word, std::vector<std::string> given, const char* verb) {
  CLI::App app("", verb);
  Options options;
  add_options(app, options, Verbs::plan);
  if (is_recipe(word)) {
    app.get_option("--model")->required(false);
    given.insert(given.begin(), {"--config", word});
  } else {
    given.insert(given.begin(), word);
  }
  parse_words(app, given);
  options.given = names_given(app);
  return options;
}

}  // namespace snug::cli
