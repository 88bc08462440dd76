// Options of the data that is trained on and evaluated.
#include "settings/option_rows.h"

namespace snug {

std::vector<Option> data_options() {
  return {
      option_row("data", &Options::data,
                 "text file or directory (bytes, or the tokens of the model's tokenizer.json), "
                 "JSONL, token "
                 "file, or synthetic (auto: synthetic for random weights)",
                 {.verbs = Verbs::train | Verbs::eval, .on_resume = OnResume::free}),
      option_row("bytes", &Options::bytes, "read text as bytes although the model has a tokenizer",
                 {.verbs = Verbs::train | Verbs::eval | Verbs::sample}),
      option_row("loss-on", &Options::loss_on,
                 "completion | all: which tokens of prompts and conversations are learned: the "
                 "answers with "
                 "their end tokens, or all",
                 {.verbs = Verbs::train | Verbs::eval}),
      option_row(
          "long", &Options::long_samples,
          "truncate | split | refuse: what becomes of a JSONL sample that is longer than --seq",
          {.verbs = Verbs::train | Verbs::eval}),
      option_row("skip-bad", &Options::skip_bad,
                 "bad lines of JSONL that are passed over before it is an error",
                 {.verbs = Verbs::train | Verbs::eval}),
      option_row(
          "token-bytes", &Options::token_bytes,
          "2 | 4: bytes per token of token files without a header (0: 2, refused where they look "
          "like 4)",
          {.verbs = Verbs::train | Verbs::eval}),
      option_row(
          "cache", &Options::cache,
          "directory for the tokens of text, which are made once (not given: .snug-tokens "
          "next to the data)",
          {.verbs = Verbs::train | Verbs::eval, .on_resume = OnResume::free, .of_host = true}),
      option_row("eval-data", &Options::eval_data, "held-out data",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("holdout", &Options::holdout,
                 "part of --data that is held out for evaluation, e.g. 0.05",
                 {.verbs = Verbs::train}),
      option_row("eval-every", &Options::eval_every,
                 "steps between evaluations (0: at the end only)",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("eval-batches", &Options::eval_batches, "micro-batches per evaluation",
                 {.verbs = Verbs::train, .on_resume = OnResume::free}),
      option_row("no-shuffle", &Options::no_shuffle, "take the sequences in the order of the data",
                 {.verbs = Verbs::train}),
      option_row(
          "mask-token", &Options::mask_token,
          "encoders: the token that hides what is to be guessed (-1: the last of the vocabulary)",
          {.verbs = Verbs::train | Verbs::eval}),
      option_row("new-data", &Options::new_data,
                 "--resume continues although the data is not what it was",
                 {.verbs = Verbs::train, .on_resume = OnResume::free})};
}

}  // namespace snug
