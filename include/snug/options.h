// Everything a run can be told, in one table: the command line, the config file, the printed recipe
// and the saved configuration are all made from it, so that they use the same words.
//
//   Options o;
//   o.model = "qwen2.5-0.5b";
//   o.batch = 32;
//   each_option(o, [](std::string_view key, auto& value, std::string_view help, OptionUse) { ...
//   });
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

struct Options {
  std::string model;  // a built-in name, a config.json, or a Hugging Face directory

  // What is computed.
  int64_t batch = 8;
  int64_t seq = 0;  // 0: 1024, or what the model can take
  int64_t accum = 1;
  std::string attention = "auto";
  std::string loss = "chunked";
  std::string recompute = "none";
  double dropout = -1;  // < 0: as the model's configuration says
  std::string budget;
  std::string device = "cpu";
  int64_t seed = 1;

  // Optimizer and schedule.
  double lr = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;
  int64_t warmup = 0;
  std::string lr_schedule = "cosine";
  double min_lr = 0.1;

  // Training.
  std::string data = "synthetic";
  std::string eval_data;
  double holdout = 0;
  int64_t eval_every = 0;
  int64_t eval_batches = 8;
  bool no_shuffle = false;
  int64_t mask_token = -1;
  int64_t steps = 100;
  std::string init = "auto";
  std::string out;
  int64_t threads = 0;
  bool json = false;
};

// Which verbs an option belongs to.
enum class OptionUse { plan_and_train, train };

// Calls visit(key, member, help, use) for every option but `model`.
template <typename O, typename Visit>
void each_option(O& o, Visit&& visit) {
  constexpr auto both = OptionUse::plan_and_train;
  constexpr auto train = OptionUse::train;
  visit("batch", o.batch, "sequences per micro-batch", both);
  visit("seq", o.seq, "tokens per sequence (0: 1024, or what the model can take)", both);
  visit("accum", o.accum, "micro-batches per step", both);
  visit("attention", o.attention, "auto | standard | flash (auto is flash)", both);
  visit("loss", o.loss, "whole | chunked[:TOKENS]: are the logits ever whole in memory", both);
  visit("recompute", o.recompute,
        "none | full | every:N | sqrt | ratio:R | attention | list:0,3,5-7: what backward makes "
        "again",
        both);
  visit("dropout", o.dropout,
        "probability for every dropout of the model (negative: as its configuration says)", both);
  visit("budget", o.budget, "refuse what needs more memory than this, e.g. 24GiB", both);
  visit("device", o.device, "cpu | null (null follows every byte and computes nothing)", both);
  visit("seed", o.seed, "of initial weights, shuffling and dropout", both);
  visit("json", o.json, "results as JSON on stdout", both);
  visit("beta1", o.beta1, "AdamW: decay of the first moment", both);
  visit("beta2", o.beta2, "AdamW: decay of the second moment", both);
  visit("eps", o.eps, "AdamW: epsilon", both);
  visit("weight-decay", o.weight_decay, "decoupled; not on norms and biases", both);
  visit("clip", o.clip, "largest global gradient norm (0: no clipping)", both);
  visit("lr", o.lr, "peak learning rate", train);
  visit("warmup", o.warmup, "optimizer steps of linear warm-up", train);
  visit("lr-schedule", o.lr_schedule, "constant | cosine | linear | wsd", train);
  visit("min-lr", o.min_lr, "where the schedule ends, as a part of --lr", train);
  visit("data", o.data, "text file or directory (byte level), token file, or synthetic", train);
  visit("eval-data", o.eval_data, "held-out data", train);
  visit("holdout", o.holdout, "part of --data that is held out for evaluation, e.g. 0.05", train);
  visit("eval-every", o.eval_every, "steps between evaluations (0: at the end only)", train);
  visit("eval-batches", o.eval_batches, "micro-batches per evaluation", train);
  visit("no-shuffle", o.no_shuffle, "take the sequences in the order of the data", train);
  visit("mask-token", o.mask_token,
        "encoders: the token that hides what is to be guessed (-1: the last of the vocabulary)",
        train);
  visit("steps", o.steps, "optimizer steps", train);
  visit("init", o.init, "auto | scratch | load (auto loads when MODEL holds weights)", train);
  visit("out", o.out, "directory for the trained model and the run's configuration", train);
  visit("threads", o.threads, "CPU threads (0: all)", train);
}

}  // namespace snug
