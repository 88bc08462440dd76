// snug VERB MODEL [options]: finds the verb, and turns an Error into one sentence and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "base/current_error.h"
#include "base/error.h"
#include "base/log.h"
#include "base/notes.h"
#include "base/text.h"
#include "verbs.h"
#include "version.h"

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
    {"profile", "where the time and the memory of a step go: every op on every lane", profile_verb},
    {"report",
     "a plan, a run or a snapshot of PyTorch's memory as a page to look at: one HTML file",
     report_verb},
    {"eval", "loss and perplexity of a model over data, by the forward pass alone", eval_verb},
    {"sample", "generates text from a prompt, token by token", sample_verb},
    {"checkpoint", "what a run has saved, whether it is whole, and the model in it",
     checkpoint_verb},
    {"merge", "a model and its adapter as one model", merge_verb},
    {"fit",
     "the largest batch, sequence or model for a budget or a GPU: by planning, not by crashing",
     fit_verb},
    {"deepspeed",
     "what each key of a DeepSpeed configuration does here, and the plan that it makes",
     deepspeed_verb},
    {"inspect",
     "a memory snapshot of PyTorch: the peak, whose it is, leaks, and what would be smaller",
     inspect_verb},
    {"ladder", "what each memory technique saves and costs on this model: planned and measured",
     ladder_verb},
    {"bench", "a GPU's speed and memory: against PyTorch, or against its roofline", bench_verb},
    {"calibrate", "measures this device, so that plans rest on what it does", calibrate_verb},
    {"doctor", "the machine, its libraries, free memory, and what is missing", doctor_verb},
    {"tokenize", "text as the tokens of a model, in a file that train reads", tokenize_verb},
    {"models", "the built-in models", models_verb},
    {"gpus", "the GPUs that --gpu may name", gpus_verb},
};

void print_help() {
  print(
      "snug trains transformers inside a memory budget.\n\n"
      "usage: snug VERB MODEL [options]\n\n");
  for (const Verb& verb : kVerbs) print("  {:<12}{}\n", verb.name, verb.answers);
  print(
      "\nMODEL is a built-in name (snug models), a config.json, or a Hugging Face directory.\n"
      "`snug help VERB` lists a verb's options; every option is also a key of --config "
      "FILE.toml.\n"
      "`snug --version` says which Snug this is.\n\n"
      "  snug plan gpt2 --batch 8\n"
      "  snug train snug-tiny --data . --steps 200 --out runs/tiny\n"
      "  snug sample runs/tiny --prompt 'The plan is'\n");
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) {
    if (name == verb.name) return verb;
    names.emplace_back(verb.name);
  }
  throw usage_error("there is no verb '{}'{}", name, did_you_mean(name, names))
      .hint("`snug help` lists the verbs");
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    print_help();
    return static_cast<int>(ExitCode::usage);
  }
  const std::string& first = arguments[0];
  if (first == "--version") {
    print("snug {}\n", version());
    return static_cast<int>(ExitCode::ok);
  }
  const bool help = first == "--help" || first == "-h" || first == "help";
  if (help && arguments.size() > 1) return find_verb(arguments[1]).run({"--help"});
  if (!help) return find_verb(first).run({arguments.begin() + 1, arguments.end()});
  print_help();
  return static_cast<int>(ExitCode::ok);
}

// Every error becomes a sentence and an exit code.
int run_or_fail(const std::vector<std::string>& arguments) {
  try {
    return run(arguments);
  } catch (...) {
    const Error error = current_error();
    const std::string_view what = error.what();
    if (!what.empty()) error_line(fmt::format("snug: {}", what));  // else another rank has said it
    if (!error.hint().empty()) error_line(fmt::format("      {}", error.hint()));
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace snug::cli

int main(int argc, char** argv) {
  snug::open_standard_streams();
  snug::tell_notes_to({.line = snug::log_line, .status = snug::show_status});
  std::signal(SIGPIPE, SIG_IGN);  // a reader that leaves early costs no run
  const int code = snug::cli::run_or_fail({argv + 1, argv + argc});
  snug::clear_status();
  const std::string lost = snug::why_results_were_lost();
  if (lost.empty()) return code;
  snug::error_line("snug: results could not be written to stdout: " + lost);
  return code == 0 ? static_cast<int>(snug::ExitCode::bad_input) : code;
}
