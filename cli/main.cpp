// snug VERB MODEL [options]: finds the verb, and turns an Error into one sentence and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/text.h"
#include "verbs.h"

namespace snug::cli {
namespace {

struct Verb {
  const char* name;
  const char* answers;
  int (*run)(const std::vector<std::string>& arguments);
};

constexpr Verb kVerbs[] = {
    {"plan", "does it fit, and where do the bytes go: no GPU, no weights, no data needed",
     plan_verb},
    {"train", "trains inside the plan, and saves a model that transformers opens", train_verb},
    {"fit",
     "the largest batch, sequence or model for a budget or a GPU: by planning, not by crashing",
     fit_verb},
    {"ladder", "what each memory technique saves and costs on this model: planned and measured",
     ladder_verb},
    {"bench", "a GPU's speed and memory: beside PyTorch, or beside what it could do", bench_verb},
    {"calibrate", "measures this device, so that plans rest on what it does", calibrate_verb},
    {"doctor", "the machine, its libraries, free memory, and what is missing", doctor_verb},
    {"models", "the built-in models", models_verb},
};

void print_help() {
  fmt::print(
      "snug trains models that do not fit.\n\n"
      "usage: snug VERB MODEL [options]\n\n");
  for (const Verb& verb : kVerbs) fmt::print("  {:<10}{}\n", verb.name, verb.answers);
  fmt::print(
      "\nMODEL is a built-in name (snug models), a config.json, or a Hugging Face directory.\n"
      "`snug VERB --help` lists a verb's options; every option is also a key of --config "
      "FILE.toml.\n\n"
      "  snug plan gpt2 --batch 8\n"
      "  snug train snug-tiny --data . --steps 200 --out runs/tiny\n");
}

int run(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help") {
    print_help();
    return static_cast<int>(arguments.empty() ? ExitCode::usage : ExitCode::ok);
  }
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (arguments[0] == verb.name) return verb.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(verb.name);
  }
  throw usage_error("there is no verb '{}'{}", arguments[0], did_you_mean(arguments[0], names))
      .hint("`snug help` lists the verbs");
}

}  // namespace
}  // namespace snug::cli

int main(int argc, char** argv) {
  try {
    return snug::cli::run({argv + 1, argv + argc});
  } catch (const snug::Error& error) {
    fmt::print(stderr, "snug: {}\n", snug::printable(error.what()));
    if (!error.hint().empty()) fmt::print(stderr, "      {}\n", snug::printable(error.hint()));
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "snug: the system has no memory left for the program itself\n");
    return static_cast<int>(snug::ExitCode::does_not_fit);
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "snug: {}: {}\n", error.path1().string(), error.code().message());
    return static_cast<int>(snug::ExitCode::bad_input);
  } catch (const std::exception& error) {
    fmt::print(stderr, "snug: internal error: {}\n", error.what());
    return static_cast<int>(snug::ExitCode::internal);
  }
}
