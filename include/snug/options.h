// Everything a run can be told, in one table: the command line, the config file, the printed recipe
// and the saved configuration are all made from it, so that they use the same words.
//
//   Options o;
//   o.model = "qwen2.5-0.5b";
//   o.batch = 32;
//   each_option(o, [](std::string_view key, auto& value, std::string_view help,
//                     OptionUse use) { ... });
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// What --profile alone says.
constexpr int64_t kProfileSteps = 3;

struct Options {
  std::string model;  // a built-in name, a config.json, or a Hugging Face directory

  // What is computed.
  int64_t batch = 8;
  int64_t seq = 0;           // 0: 1024, or what the model can take
  int64_t accum = 0;         // 0: 1, or what the search chooses
  int64_t global_batch = 0;  // 0: batch x accum
  std::string micro_order = "auto";
  std::string attention = "auto";
  std::string loss = "auto";
  std::string recompute = "auto";
  std::string compress = "none";
  std::string offload = "auto";
  int64_t offload_ahead = 0;  // 0: 1, or what the search chooses
  std::string offload_dir;    // a run needs it where something lives on disk
  int64_t rank = 0;           // of this process, from 0: not an option, every rank has another
  double cores = 0;  // of each rank: not an option; 0: as many as this machine has for all of them
  std::string mesh;
  int64_t tp = 0;  // 0: 1, or what --mesh says
  int64_t pp = 0;
  std::string pp_schedule = "auto";
  std::string zero = "auto";
  std::string shard;
  int64_t zero_threshold = 100'000;
  std::string lora = "none";
  std::string base_dtype = "auto";
  std::string precision = "auto";
  std::string master = "fp32";
  std::string grad_dtype = "auto";
  std::string loss_scale = "auto";
  int64_t loss_scale_interval = 1000;
  double dropout = -1;  // < 0: as the model's configuration says
  std::string budget;
  std::string host_budget;
  std::string disk_budget;
  std::string allow;  // what the search may change although it changes results
  bool explain = false;
  std::string gpu;  // of the catalogue: plans for it, with its memory as the budget
  std::string device = "auto";
  bool deterministic = false;
  bool tf32 = false;
  std::string tune = "auto";
  int64_t seed = 1;

  // Optimizer and schedule.
  std::string optimizer = "adamw";
  std::string state_dtype = "fp32";
  bool update_in_backward = false;
  std::string fold_update = "auto";
  std::string host_update = "auto";
  double lr = 3e-4;
  std::string lr_scale = "none";
  int64_t base_batch = 0;
  double beta1 = 0.9;
  double beta2 = -1;  // < 0: as the optimizer's authors say
  double eps = 1e-8;
  double momentum = 0.9;
  double weight_decay = 0.1;
  double clip = 1.0;
  int64_t warmup = 0;
  std::string lr_schedule = "cosine";
  double min_lr = 0.1;

  // Training.
  std::string data = "auto";
  bool bytes = false;
  bool pack = false;
  std::string loss_on = "completion";
  std::string long_samples = "truncate";
  int64_t skip_bad = 0;
  int64_t token_bytes = 0;
  std::string cache;
  std::string eval_data;
  double holdout = 0;
  int64_t eval_every = 0;
  int64_t eval_batches = 8;
  bool no_shuffle = false;
  int64_t mask_token = -1;
  int64_t steps = 100;
  std::string init = "auto";
  std::string adapter;
  std::string out;
  bool overwrite = false;
  std::string save_every;
  bool save_sync = false;
  int64_t keep = 2;
  int64_t keep_every = 0;
  std::string resume;
  bool resume_changed = false;
  bool new_data = false;
  std::string on_nan = "stop";
  std::string grace;
  int64_t profile = 0;
  std::string profile_dir;
  std::string tensorboard;
  int64_t log_every = 0;
  int64_t threads = 0;
  int64_t ranks = 0;  // 0: 1, or as many as whoever started this process says
  bool log_ranks = false;
  bool share_gpu = false;
  bool json = false;

  // Names of the options that somebody typed: what --resume takes to be asked for anew. A caller
  // that leaves it empty asks for what differs from the defaults.
  std::vector<std::string> given = {};
};

// Which verbs an option belongs to.
enum class OptionUse { plan_and_train, train };

// Calls visit(key, member, help, use) for every option but `model`.
template <typename O, typename Visit>
void each_option(O& o, Visit&& visit) {
  constexpr auto both = OptionUse::plan_and_train;
  constexpr auto train = OptionUse::train;
  visit("batch", o.batch,
        "sequences per micro-batch; within a budget and without --accum, per step, in as many "
        "micro-batches as it takes",
        both);
  visit("seq", o.seq, "tokens per sequence (0: 1024, or what the model can take)", both);
  visit("accum", o.accum, "micro-batches per step (0: 1, or what fits the budget)", both);
  visit("global-batch", o.global_batch,
        "sequences per step in place of --accum; the last micro-batch may be short (0: batch x "
        "accum)",
        both);
  visit("micro-order", o.micro_order,
        "auto | horizontal | vertical | groups:K: micro-batches one after another, or all (K) of "
        "them through a layer before the next (auto: horizontal, or as the search finds where "
        "values move)",
        both);
  visit("mesh", o.mesh,
        "pp=P,dp=D,tp=T: how ranks share the work: P pipeline stages, D that read other samples, T "
        "that share each matrix; who is left out is 1, or for dp what the ranks leave",
        both);
  visit("tp", o.tp, "ranks that share each matrix, as tp of --mesh (0: 1, or as --mesh says)",
        both);
  visit("pp", o.pp, "pipeline stages, as pp of --mesh (0: 1, or as --mesh says)", both);
  visit("pp-schedule", o.pp_schedule,
        "auto | 1f1b | interleaved:V | zero-bubble: the order of a stage's micro-batches; "
        "interleaved: a stage has V chunks of layers; zero-bubble: gradients of weights wait until "
        "the stage would; both take memory (auto: 1f1b, or as the search finds)",
        both);
  visit("zero", o.zero,
        "auto | 0 | 1 | 2 | 3: what ranks share instead of having all of it: 1 masters and "
        "optimizer state, 2 gradients too, 3 parameters too (auto: 1, or what --budget needs)",
        both);
  visit("shard", o.shard,
        "none | grad-op | full: --zero 0, 2 or 3 in the words of FSDP; hybrid:N: groups of N ranks "
        "share, each a copy of the state, as --zero says (3 where it does not)",
        both);
  visit("zero-threshold", o.zero_threshold,
        "elements below which a parameter stays whole on every rank under --zero", both);
  visit("lora", o.lora,
        "none | r=16,alpha=32,targets=qkvo|all|NAME+NAME,dropout=0.05: train low-rank adapters "
        "beside "
        "the model's linear layers, which are frozen with the rest of it (r: 16, alpha: 2 r, "
        "targets: all and dropout: 0 where they are not given)",
        both);
  visit(
      "base-dtype", o.base_dtype,
      "auto | nf4 | int8: how the frozen linear layers are stored under --lora, in 4 bits a weight "
      "and a scale for every 64, or in 8 and one for every 128 (auto: as --precision)",
      both);
  visit("precision", o.precision,
        "auto | fp32 | bf16 | fp16: type of weights and activations (auto: bf16 on a GPU, fp32 on "
        "a CPU and with --tf32)",
        both);
  visit("master", o.master,
        "fp32 | none: an fp32 copy of 16-bit weights, or stochastic rounding without one", both);
  visit("grad-dtype", o.grad_dtype,
        "auto | fp32 | bf16 | fp16 (auto: as --precision, fp32 when micro-batches add up)", both);
  visit("loss-scale", o.loss_scale,
        "auto | none | dynamic[:START] | NUMBER (auto: dynamic:65536 for fp16)", both);
  visit("loss-scale-interval", o.loss_scale_interval,
        "clean steps after which a dynamic loss scale doubles", both);
  visit("attention", o.attention,
        "auto | standard | chunked[:QUERIES] | flash (auto is flash, or what --budget chooses)",
        both);
  visit("loss", o.loss,
        "auto | whole | chunked[:TOKENS]: the logits of all tokens at once, or of a chunk at a "
        "time (auto is chunked)",
        both);
  visit("recompute", o.recompute,
        "auto | none | full | every:N | sqrt | ratio:R | attention | list:0,3,5-7 | "
        "layers:0-8=attn.norm+mlp.act,9=full | auto:BYTES: what backward recomputes (auto: as "
        "little as --budget allows)",
        both);
  visit("compress", o.compress,
        "none | int8: how activations are stored between forward and backward (recompute then "
        "changes which of them are rounded)",
        both);
  visit("offload", o.offload,
        "auto | none | ITEM[@LAYERS][=PLACE],...: what lives outside the device and is brought "
        "when it is used; ITEM optimizer, master, grads, params, activations or all, LAYERS like "
        "0-11+15, PLACE host or disk, host if not given (auto: none, or on a GPU what --budget "
        "chooses)",
        both);
  visit(
      "offload-ahead", o.offload_ahead,
      "layers by which what is elsewhere is brought before it is used (0: 1, or what is fastest in "
      "the budget)",
      both);
  visit("offload-dir", o.offload_dir,
        "directory on a local disk, for what --offload puts there: one file, which is gone when "
        "the run ends",
        both);
  visit("dropout", o.dropout,
        "probability for every dropout of the model (negative: as its configuration says)", both);
  visit(
      "budget", o.budget,
      "memory to stay inside, e.g. 24GiB: what is left open is chosen to be fastest within it (on "
      "a GPU all that nvidia-smi shows; not given: what is free there, on a CPU no limit)",
      both);
  visit("host-budget", o.host_budget,
        "host memory that a plan may use beside the device's (training: what is free, less a "
        "reserve)",
        both);
  visit("disk-budget", o.disk_budget, "bytes on disk that a plan may use", both);
  visit("allow", o.allow,
        "what the search may change to fit or to be faster, although results change: optimizer, "
        "precision, compress, base, or all",
        both);
  visit("explain", o.explain,
        "plan: what else was considered and why it lost; train: predicted beside measured", both);
  visit("gpu", o.gpu,
        "a GPU to plan for, e.g. rtx4090 or g6.xlarge (snug gpus lists them): its speed, and its "
        "memory where there is no --budget",
        both);
  visit(
      "device", o.device,
      "auto | cpu | cuda | null (auto: cuda where a GPU answers, else cpu; null follows every byte "
      "and computes nothing)",
      both);
  visit("deterministic", o.deterministic,
        "the same bits from every run: algorithms are chosen by rule, not by timing", both);
  visit("tf32", o.tf32, "a GPU's fp32 matmuls and attention may round their factors to tf32", both);
  visit("seed", o.seed, "of initial weights, shuffling and dropout", both);
  visit("json", o.json, "results as JSON on stdout", both);
  visit("optimizer", o.optimizer, "adamw | adamw8bit | adam-mini | lion | sgd", both);
  visit("state-dtype", o.state_dtype,
        "fp32 | bf16: type of the optimizer's moments (bf16 with stochastic rounding)", both);
  visit("update-in-backward", o.update_in_backward,
        "update each parameter as soon as its gradient is complete, and free the gradient", both);
  visit(
      "fold-update", o.fold_update,
      "auto | on | off: update a layer whose state is offloaded on the way through the next step's "
      "forward, so that it comes and goes meanwhile (auto: on a GPU, without stages)",
      both);
  visit("host-update", o.host_update,
        "auto | none | all | LAYERS, e.g. 0-11+15: update parameters whose state is in host memory "
        "on the host's cores (auto: where a budget's search finds that faster)",
        both);
  visit("beta1", o.beta1, "decay of the first moment", both);
  visit("beta2", o.beta2, "decay of the second moment (negative: 0.95, for lion 0.99)", both);
  visit("eps", o.eps, "adamw, adamw8bit, adam-mini: epsilon", both);
  visit("momentum", o.momentum, "sgd: momentum (0: none, and no state)", both);
  visit("weight-decay", o.weight_decay, "decoupled; not on norms and biases", both);
  visit("clip", o.clip, "largest global gradient norm (0: no clipping)", both);
  visit("lr", o.lr, "peak learning rate", train);
  visit("lr-scale", o.lr_scale,
        "none | linear | sqrt: how --lr grows with sequences per step beyond --base-batch", train);
  visit("base-batch", o.base_batch, "sequences per step that --lr was chosen for", train);
  visit("warmup", o.warmup, "optimizer steps of linear warm-up", train);
  visit("lr-schedule", o.lr_schedule, "constant | cosine | linear | wsd", train);
  visit("min-lr", o.min_lr, "where the schedule ends, as a part of --lr", train);
  visit("data", o.data,
        "text file or directory (bytes, or the tokens of the model's tokenizer.json), JSONL, token "
        "file, or synthetic (auto: synthetic for random weights)",
        train);
  visit("bytes", o.bytes, "read text as bytes although the model has a tokenizer", train);
  visit("pack", o.pack,
        "several samples in a row, without attention between them; positions restart", both);
  visit("loss-on", o.loss_on,
        "completion | all: which tokens of prompts and conversations are learned: the answers with "
        "their end tokens, or all",
        train);
  visit("long", o.long_samples,
        "truncate | split | refuse: what becomes of a JSONL sample that is longer than --seq",
        train);
  visit("skip-bad", o.skip_bad, "bad lines of JSONL that are passed over before it is an error",
        train);
  visit("token-bytes", o.token_bytes,
        "2 | 4: bytes per token of token files without a header (0: 2, refused where they look "
        "like 4)",
        train);
  visit("cache", o.cache,
        "directory for the tokens of text, which are made once (not given: .snug-tokens beside the "
        "data)",
        train);
  visit("eval-data", o.eval_data, "held-out data", train);
  visit("holdout", o.holdout, "part of --data that is held out for evaluation, e.g. 0.05", train);
  visit("eval-every", o.eval_every, "steps between evaluations (0: at the end only)", train);
  visit("eval-batches", o.eval_batches, "micro-batches per evaluation", train);
  visit("no-shuffle", o.no_shuffle, "take the sequences in the order of the data", train);
  visit("mask-token", o.mask_token,
        "encoders: the token that hides what is to be guessed (-1: the last of the vocabulary)",
        train);
  visit("steps", o.steps, "optimizer steps", train);
  visit("tune", o.tune,
        "auto | short | long: how a GPU's matmuls are timed before the first step (long: about a "
        "minute, then cached; auto: long where training takes half an hour)",
        train);
  visit("init", o.init, "auto | scratch | load (auto loads when MODEL holds weights)", train);
  visit(
      "adapter", o.adapter,
      "directory of an adapter, as PEFT saves it: training goes on with it, eval and sample use it",
      train);
  visit("out", o.out,
        "directory for the trained model, its checkpoints and the run's configuration", train);
  visit("overwrite", o.overwrite,
        "--out may hold another run or model, which stays until the first new save is complete",
        train);
  visit(
      "save-every", o.save_every,
      "steps (100) or time (10min) between checkpoints in --out; one is written at the end in any "
      "case",
      both);
  visit("save-sync", o.save_sync, "training waits while a checkpoint is written", both);
  visit("keep", o.keep, "checkpoints that are kept, the newest ones", train);
  visit("keep-every", o.keep_every, "and those of every so many steps (0: no others)", train);
  visit("resume", o.resume,
        "directory of a run, or one of its checkpoints: goes on exactly where that was; everything "
        "else comes from there",
        train);
  visit("resume-changed", o.resume_changed,
        "options beside --resume may change the results of the run that goes on", train);
  visit("on-nan", o.on_nan,
        "stop | skip | rollback[:N]: where a loss is not finite, end; leave the update out; or go "
        "back "
        "to the last checkpoint, N times at most, and leave those samples out (3 if not given)",
        train);
  visit(
      "grace", o.grace,
      "time between SIGTERM and the end, e.g. 30s: a run that is stopped saves its checkpoint and "
      "leaves the model to `snug checkpoint --export`",
      train);
  visit("profile", o.profile,
        "steps that are measured op by op, after a few that warm up (--profile alone: 3; 0: none)",
        train);
  visit("profile-dir", o.profile_dir,
        "directory for the files of --profile (not given: profile in --out, or none)", train);
  visit("tensorboard", o.tensorboard, "directory for event files that TensorBoard reads", train);
  visit("log-every", o.log_every,
        "steps between two lines (0: every step, and on a terminal none but a status line)", train);
  visit("new-data", o.new_data, "--resume goes on although the data is not what it was", train);
  visit("threads", o.threads, "CPU threads of a rank (0: all, shared by the ranks of --ranks)",
        train);
  visit("ranks", o.ranks,
        "processes that train together, started on this machine (0: 1, or as many as mpirun, "
        "torchrun or srun has started)",
        both);
  visit("log-ranks", o.log_ranks, "every rank prints, not only rank 0", train);
  visit("share-gpu", o.share_gpu, "more ranks than GPUs: several use one, for tests", train);
}

}  // namespace snug
