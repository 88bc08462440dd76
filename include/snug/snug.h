// Snug as a library: the same words as the command line.
//
//   snug::Options o;
//   o.model = "gpt2";
//   o.budget = "8GiB";
//   snug::PlanReport report = snug::plan(o);
//   if (!report.fits) std::puts(report.table.c_str());
//
// Everything here throws snug::Error (base/error.h): one sentence, a hint, an exit code.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "snug/options.h"

namespace snug {

struct PlanReport {
  bool fits = true;
  int64_t arena_bytes = 0;
  std::string table;    // for people
  std::string json;     // for programs: one object
  std::string program;  // the placed program, when asked for
};

// Where every byte will go. Needs no weights, no data and no device.
PlanReport plan(const Options& options, bool with_program = false);

struct NamedOptions {
  std::string name;
  Options options;
};
struct CompareReport {
  std::string table;  // for people
  std::string json;   // for programs: one object with `a`, `b` and `difference`
};
// Two plans side by side: what differs in the question, and what that does to the answer.
CompareReport compare(const NamedOptions& a, const NamedOptions& b);

struct StepReport {
  int64_t step = 0;
  int64_t steps = 0;
  double loss = 0;  // mean per target
  double grad_norm = 0;
  double lr = 0;
  int64_t tokens = 0;  // seen so far
  double tokens_per_s = 0;
  double seconds = 0;  // of this step
  int64_t planned_bytes = 0;
  int64_t peak_bytes = 0;  // measured
  double loss_scale = 0;   // after the step; 0: there is none
  bool skipped = false;  // the gradient norm was not finite: parameters and optimizer are as before

  double samples_per_s = 0;
  double hours_left = 0;        // at the pace of the last steps
  int64_t allocated_bytes = 0;  // the arena
  int64_t context_bytes = 0;    // a GPU's driver and libraries, as looked at last
  int64_t budget_bytes = 0;     // for both; 0: there is none
  int64_t process_bytes = 0;    // resident in host memory
  // Of a GPU, where its driver tells; negative: it does not.
  double utilisation = -1, watts = -1, clock_mhz = -1;
};

struct TrainObserver {
  std::function<void(const PlanReport&)> planned;  // before anything large is allocated
  std::function<void(const std::string&)> said;    // a line for the person who watches
  std::function<void(const std::string&)> doing;   // what takes a while from now on: "planning"
  std::function<void()> started;                   // from now on `stop` saves what was trained
  std::function<void(const StepReport&)> stepped;
  std::function<void(int64_t step, double loss)> evaluated;
  const std::atomic<bool>* stop = nullptr;  // set: finish the step, save, return
};

// Predictions and measurements: of a step, of bytes, and of time by kind of op.
struct PredictionReport {
  std::string table;  // for people
  std::string json;   // for programs: one line
};

// Where the time and the bytes of a step go: measured where something ran, predicted in any case.
struct ProfileReport {
  std::string table;               // for people
  std::string json;                // for programs: one line
  std::vector<std::string> files;  // that were written
};

struct TrainReport {
  int64_t steps = 0;
  double first_loss = 0;
  double last_loss = 0;
  double first_eval = 0, last_eval = 0;  // 0 when nothing was held out
  bool stopped_early = false;
  int64_t peak_bytes = 0;                      // measured in the arena
  int64_t context_bytes = 0;                   // of a GPU's driver and libraries, before step 0
  std::string out;                             // where the model was written, if anywhere
  std::optional<PredictionReport> prediction;  // with Options::explain
  std::optional<ProfileReport> profile;        // with Options::profile
};

TrainReport train(const Options& options, const TrainObserver& observer);

// A few steps of that training, `options.profile` of them measured (0: 3), and nothing kept but the
// files of --profile-dir. On the device "null" nothing runs: all is predicted.
ProfileReport profile(const Options& options, const TrainObserver& observer);

struct EvalReport {
  double loss = 0;                      // mean per target
  double perplexity = 0;                // e^loss
  std::optional<double> bits_per_byte;  // where a token is a byte of text
  int64_t tokens = 0;                   // targets that counted
  int64_t windows = 0, all_windows = 0;
  double seconds = 0;  // of computing, without loading
  double tokens_per_s = 0;
  int64_t planned_bytes = 0;
  int64_t peak_bytes = 0;  // measured
};

struct EvalObserver {
  std::function<void(const PlanReport&)> planned;    // before anything large is allocated
  std::function<void(const std::string&)> said;      // a line for the person who watches
  std::function<void(const std::string&)> doing;     // what takes a while from now on
  std::function<void(const EvalReport&)> evaluated;  // so far, after every batch
};

// The loss of a model over all of `options.data`: every window once, in order, the last batch
// short. A program of the forward pass alone is planned and run: no gradients, no optimizer state.
// Where the batch is left open, it is the largest half, quarter, ... of the default that fits the
// budget.
EvalReport evaluate(const Options& options, const EvalObserver& observer);

struct SampleOptions {
  Options run;         // model, device, budget, precision, offload, seed, threads, bytes
  std::string prompt;  // as text, or
  std::optional<std::vector<int32_t>> prompt_ids;  // as tokens
  int64_t max_tokens = 128;
  double temperature = 1;  // 0: the most probable token, always
  double top_p = 1;
  int64_t top_k = 0;               // 0: all
  std::vector<std::string> stops;  // texts that end it, and are not part of the result
};

struct SampleReport {
  std::vector<int32_t> prompt_ids, ids;    // ids: what was generated, without an end of text
  std::string text;                        // of ids; empty where the model's tokens are no text
  std::string ended_by;                    // "end of text", "stop text", "max tokens"
  double prompt_seconds = 0, seconds = 0;  // of the prompt, and of what was generated
  int64_t planned_bytes = 0;
  int64_t peak_bytes = 0;  // measured
};

struct SampleObserver {
  std::function<void(const PlanReport&)> planned;  // before anything large is allocated
  std::function<void(const std::string&)> said;    // a line for the person who watches
  std::function<void(const std::string&)> doing;   // what takes a while from now on
  std::function<void(const std::string&)> wrote;   // more of the text, never a part of a character
};

// Generates text from a prompt, token by token. Two programs are planned with keys and values of
// all positions in the arena: one for the prompt, one for the next token.
SampleReport sample(const SampleOptions& options, const SampleObserver& observer);

// One checkpoint of a run.
struct CheckpointLine {
  std::string path, name;       // "runs/a/step-00000100", "step-00000100"
  std::string run;              // whose it is
  int64_t step = 0, steps = 0;  // done, of so many
  int64_t bytes = 0;
  std::string recipe;     // in words
  bool latest = false;    // what --resume takes
  bool verified = false;  // every byte is what was written
  std::string wrong;      // empty: nothing
};
// Of a run's directory all, the oldest first; of a checkpoint that one.
std::vector<CheckpointLine> checkpoints(const std::string& path, bool verify,
                                        const std::function<void(const std::string&)>& doing = {});
// Writes the model in it as a directory that transformers opens: no GPU, and little memory.
void export_checkpoint(const std::string& path, const std::string& directory);
// The differences, a line each.
std::vector<std::string> diff_checkpoints(const std::string& first, const std::string& second);

// Adds an adapter, as PEFT or `snug train --lora` saves it, to the weights of its base model, and
// writes the sum as a model of the same types. Throws bad_input where the adapter is of another
// model; a usage error where `directory` holds something.
//
//   merge_adapter("Qwen2.5-7B", "runs/adapter", "Qwen2.5-7B-mine", {});
void merge_adapter(const std::string& model, const std::string& adapter,
                   const std::string& directory,
                   const std::function<void(const std::string&)>& doing);

struct TokenizeOptions {
  std::string model;        // a Hugging Face directory, or a tokenizer.json
  std::string data;         // a file of text, a directory of them, or JSONL
  std::string out;          // the token file; of JSONL, the file of samples
  std::string end_of_text;  // between two documents; empty: the tokenizer's own
  int64_t skip_bad = 0;     // bad lines of JSONL that are passed over
  bool overwrite = false;
};
struct TokenizeReport {
  int64_t tokens = 0, documents = 0, bytes = 0, vocabulary = 0;
  int64_t empty = 0, bad = 0;  // of JSONL: samples with nothing to learn, lines passed over
  double seconds = 0;          // without reading the tokenizer
  std::string out;
};
// Text as the tokens of a model, in a file that train reads. `progress` is told the part that is
// done, and how many tokens that was.
TokenizeReport tokenize(const TokenizeOptions& options,
                        const std::function<void(double done, int64_t tokens)>& progress = {});

// One rung of the ladder: a short training of its own.
struct Rung {
  std::string name;    // "chunked loss"
  std::string change;  // "--loss chunked": flags to give after the baseline's own
  bool fits = true;    // inside --budget and the machine's memory
  int64_t planned_bytes = 0;
  std::optional<int64_t> measured_bytes;  // none: it does not fit
  std::optional<double> step_seconds;     // median without the first; none: nothing was computed
  std::optional<double> loss;             // after the last step; held-out where data is held out
  int64_t skipped = 0;                    // steps without an update
  bool scratch_is_a_cap = false;          // a GPU's libraries need not fill theirs

  bool as_planned() const {
    return !measured_bytes || *measured_bytes == planned_bytes ||
           (scratch_is_a_cap && *measured_bytes < planned_bytes);
  }
};

struct LadderReport {
  std::string device;     // that it is for: "cpu", "NVIDIA H200"
  int64_t sequences = 0;  // per step, on every rung
  int64_t seq = 0;
  std::vector<Rung> rungs;  // the baseline first, all together last
};

struct LadderObserver {
  std::function<void(const LadderReport&)> planned;  // every rung, before the first runs
  std::function<void(const Rung&)> started;
  std::function<void(const Rung&)> measured;
};

// The model with none of the techniques, then with each alone, then with all that add up. The
// options say everything but the techniques.
LadderReport ladder(const Options& options, const LadderObserver& observer);

struct DoctorReport {
  std::string table;  // for people
  std::string json;   // for programs: one object
};
// The machine, its driver, libraries and GPUs, and what is missing. A report: it refuses nothing.
DoctorReport doctor();

struct ModelLine {
  std::string name, family, note;
  int64_t parameters = 0, layers = 0, width = 0, heads = 0, kv_heads = 0, vocabulary = 0;
};
std::vector<ModelLine> models();

struct GpuLine {
  std::string name, title;
  std::vector<std::string> clouds;  // machines of clouds that have it: "g6", "g2-standard"
  std::string capability;           // "8.9"
  int64_t memory_bytes = 0;
  double fp32_flops = 0, tf32_flops = 0, bf16_flops = 0, fp16_flops = 0;  // a second; 0: none
  double bytes_per_s = 0;
};
// The GPUs that --gpu may name.
std::vector<GpuLine> gpus();

}  // namespace snug
