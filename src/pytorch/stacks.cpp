#include "pytorch/stacks.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace snug::pytorch {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}
bool is_python(const Frame& f) { return f.file.ends_with(".py"); }
bool is_torch(const Frame& f) { return has(f.file, "/torch/") || f.file.starts_with("torch/"); }
bool is_in(const Frame& f, std::string_view folder) { return is_torch(f) && has(f.file, folder); }
template <size_t kCount>
bool is_one_of(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::ranges::find(names, name) != names.end();
}
std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

constexpr std::array<std::string_view, 12> kSetup{
    "reset_parameters", "_init_weights", "init_weights", "from_pretrained",
    "from_config",      "_from_config",  "_apply",       "load_state_dict",
    "to_empty",         "post_init",     "__init__",     "_load_pretrained_model"};

// A model is made or moved.
bool is_setup(const Frame& f) {
  if (!is_python(f) || is_in(f, "torch/optim/")) return false;
  if (f.name == "to" || f.name == "cuda") return is_in(f, "torch/nn/modules/module.py");
  return is_one_of(f.name, kSetup);
}
bool is_forward(const Frame& f) {
  if (!is_python(f)) return false;
  return f.name == "forward" || f.name == "_call_impl" || f.name == "_wrapped_call_impl" ||
         is_in(f, "torch/nn/functional.py");
}
bool is_backward(const Frame& f) {
  if (is_python(f)) {
    return f.name == "backward" || f.name == "_engine_run_backward" ||
           (f.name == "grad" && is_in(f, "torch/autograd/")) || f.name == "unpack_hook";
  }
  return has(f.name, "autograd::Engine::") || has(f.name, "autograd::python::PythonEngine") ||
         has(f.name, "Backward0::apply");
}
bool is_optimizer(const Frame& f) {
  if (!is_python(f)) return false;
  if (is_in(f, "torch/optim/")) return f.name != "__init__" && !has(f.file, "lr_scheduler");
  if (is_in(f, "torch/nn/utils/clip_grad.py")) return true;
  const bool other = has(f.file, "bitsandbytes/optim/") || has(f.file, "deepspeed/ops/adam/") ||
                     has(f.file, "apex/optimizers/") || has(f.file, "deepspeed/runtime/zero/stage");
  return other && f.name == "step";
}

// "Linear" of torch/nn/modules/linear.py.
std::string module_of(const Frame& f) {
  static const std::array<std::pair<std::string_view, std::string_view>, 7> kNames{
      {{"linear", "Linear"},
       {"normalization", "LayerNorm"},
       {"sparse", "Embedding"},
       {"dropout", "Dropout"},
       {"conv", "Conv"},
       {"batchnorm", "BatchNorm"},
       {"rnn", "RNN"}}};
  const size_t slash = f.file.rfind('/');
  const std::string stem = f.file.substr(slash + 1, f.file.size() - slash - 4);
  for (const auto& [file, name] : kNames)
    if (stem == file) return std::string(name);
  return stem;
}

class StackReader {
 public:
  StackReader(const Snapshot& snapshot, const std::vector<uint32_t>& stack) {
    for (const uint32_t i : stack) look_at(snapshot.frames[i]);
  }
  StackFacts facts() && {
    facts_.phase = phase();
    facts_.label = label();
    return std::move(facts_);
  }

 private:
  // From the innermost frame on.
  void look_at(const Frame& f) {
    any_ = true;
    const std::string name = lower(f.name);
    facts_.workspace |= has(name, "workspace");
    facts_.zero_grad |= f.name == "zero_grad";
    facts_.recomputed |= is_in(f, "torch/utils/checkpoint.py") &&
                         (f.name == "unpack_hook" || f.name == "recompute_fn");
    facts_.casts |= has(f.name, "cached_cast");
    facts_.loss |= is_python(f) && !is_in(f, "torch/optim/") &&
                   (has(name, "cross_entropy") || has(name, "loss"));
    backward_ |= is_backward(f);
    forward_ |= is_forward(f);
    optimizer_ |= is_optimizer(f);
    setup_ |= is_setup(f);
    if (module_.empty() && is_in(f, "torch/nn/modules/") && f.name == "forward") {
      module_ = module_of(f);
      facts_.weighted = module_ == "Linear" || module_ == "Embedding" || module_ == "Conv";
    }
    if (owner_ == nullptr && is_python(f) && !is_torch(f)) owner_ = &f;
    if (innermost_ == nullptr) innermost_ = &f;
  }
  Phase phase() const {
    if (!any_) return Phase::bare;
    if (optimizer_) return Phase::optimizer;
    if (backward_ || facts_.recomputed) return Phase::backward;
    if (forward_) return Phase::forward;
    return setup_ ? Phase::setup : Phase::script;
  }
  std::string label() const {
    const Frame* frame = owner_ != nullptr ? owner_ : innermost_;
    if (frame == nullptr) return "";
    const std::string place = frame_text(*frame);
    return module_.empty() ? place : module_ + ", " + place;
  }

  StackFacts facts_;
  bool any_ = false, forward_ = false, backward_ = false, optimizer_ = false, setup_ = false;
  std::string module_;
  const Frame* owner_ = nullptr;
  const Frame* innermost_ = nullptr;
};

}  // namespace

std::string frame_text(const Frame& frame) {
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  if (file.empty() || file == "??") return frame.name;
  return fmt::format("{}:{} {}", file, frame.line, frame.name);
}

std::vector<StackFacts> facts_of_stacks(const Snapshot& snapshot) {
  std::vector<StackFacts> facts;
  for (const std::vector<uint32_t>& stack : snapshot.stacks)
    facts.push_back(StackReader(snapshot, stack).facts());
  return facts;
}

}  // namespace snug::pytorch
