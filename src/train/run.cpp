#include "snug/run.h"

#include <exception>
#include <utility>

#include "base/current_error.h"
#include "base/error.h"
#include "checkpoint/run_state.h"
#include "ir/visit_dtype.h"
#include "train/run_body.h"

namespace snug {
namespace {

RunBody& open_body(const RunHandle* handle) {
  if (handle == nullptr || !handle->body) throw usage_error("the run is closed");
  return *handle->body;
}

// An exception closes the run and fails the job of its ranks, unless the run survives it.
template <typename Call>
auto guarded(RunHandle& handle, RunCall what, const Call& call) {
  try {
    return call(*handle.body);
  } catch (...) {
    if (handle.body->survives(what, current_error())) throw;
    const std::unique_ptr<Job> job = handle.body->take_job();
    if (!job) {
      handle.body.reset();
      throw;
    }
    const Error error = current_error();
    handle.body.reset();
    throw job->fail(error);
  }
}

template <typename Call>
auto called(RunHandle* handle, RunCall what, const Call& call) {
  open_body(handle).require(what);
  return guarded(*handle, what, call);
}

// All ranks have done their work.
void leave(const std::unique_ptr<Job>& job) {
  if (!job) return;
  try {
    job->leave();
  } catch (...) {
    throw job->fail(current_error());
  }
}

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

bool is_gradient(const Value& value) {
  return value.category == Category::grads && value.shared() && value.owns_bytes() &&
         value.parameter.valid();
}

bool is_parameter(const Value& value) {
  return value.category == Category::params && value.scope == Scope::persistent &&
         value.owns_bytes();
}

}  // namespace

void StateView::read(std::span<std::byte> to, int64_t offset) const {
  const auto bytes = static_cast<int64_t>(to.size());
  open_body(handle_.get()).require(RunCall::read);
  if (offset < 0 || bytes > bytes_ || offset > bytes_ - bytes)
    throw usage_error("{} has {} bytes: none are {} from {} on", name_, bytes_, bytes, offset);
  guarded(*handle_, RunCall::read, [&](RunBody& body) {
    body.executor(/*flushed=*/category_ != name_of(Category::grads))
        .read(ValueId{value_}, offset, to);
  });
}

std::vector<std::byte> StateView::read() const {
  std::vector<std::byte> all(static_cast<size_t>(bytes_));
  read(all);
  return all;
}

std::vector<float> StateView::floats() const {
  const std::vector<std::byte> all = read();
  const Dtype dtype = parse_dtype(dtype_).value();
  std::vector<float> out(all.size() / static_cast<size_t>(size_of(dtype)));
  visit_dtype(dtype, [&](auto zero) {
    const auto* from = reinterpret_cast<const decltype(zero)*>(all.data());
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(from[i]);
  });
  return out;
}

struct StateViews {
  static StateView of(const std::shared_ptr<RunHandle>& handle, const Module& module, ValueId id) {
    const Value& value = module[id];
    StateView view;
    view.name_ = value.name;
    view.category_ = name_of(value.category);
    view.dtype_ = name_of(value.type.dtype);
    view.shape_ = dims_of(value.type.shape);
    view.whole_ = dims_of(value.whole());
    view.first_ = value.shard_first;
    view.bytes_ = value.type.bytes();
    view.value_ = id.index;
    view.handle_ = handle;
    return view;
  }

  template <typename Wanted>
  static std::vector<StateView> where(const std::shared_ptr<RunHandle>& handle,
                                      const Wanted& wanted) {
    const Module& module = module_of(handle.get());
    std::vector<StateView> views;
    for (size_t i = 0; i < module.values.size(); ++i)
      if (wanted(module.values[i]))
        views.push_back(of(handle, module, ValueId{static_cast<int32_t>(i)}));
    return views;
  }

  static const Module& module_of(RunHandle* handle) {
    open_body(handle).require(RunCall::read);
    return handle->body->module();
  }
};

Run::Run(std::unique_ptr<RunBody> body)
    : handle_(std::make_shared<RunHandle>(RunHandle{std::move(body)})) {}
Run::Run(Run&&) noexcept = default;

Run& Run::operator=(Run&& other) noexcept {
  if (this != &other) std::swap(handle_, other.handle_);
  return *this;
}

Run::~Run() {
  if (!handle_ || !handle_->body) return;
  const std::unique_ptr<Job> job = handle_->body->take_job();
  handle_->body.reset();
  try {
    if (std::uncaught_exceptions() == 0) leave(job);
  } catch (...) {  // the job has said why
  }
}

Run Run::open(const Options& options, TrainObserver observer) {
  return Run(open_training(options, std::move(observer)));
}
Run Run::open_evaluation(const Options& options, EvalObserver observer) {
  return Run(snug::open_evaluation(options, std::move(observer)));
}

bool Run::is_open() const { return handle_ && handle_->body; }
bool Run::done() const { return open_body(handle_.get()).done(); }
int64_t Run::steps() const { return open_body(handle_.get()).steps(); }

void Run::step() {
  called(handle_.get(), RunCall::step, [](RunBody& body) { body.step(); });
}

std::optional<StepReport> Run::metrics() {
  return called(handle_.get(), RunCall::read, [](RunBody& body) { return body.metrics(); });
}

EvalReport Run::evaluate() {
  return called(handle_.get(), RunCall::evaluate, [](RunBody& body) { return body.evaluate(); });
}

std::vector<StateView> Run::parameters() { return StateViews::where(handle_, is_parameter); }
std::vector<StateView> Run::gradients() { return StateViews::where(handle_, is_gradient); }

std::vector<StateView> Run::state() {
  const Module& module = StateViews::module_of(handle_.get());
  std::vector<StateView> views;
  for (const ValueId id : run_state(module)) views.push_back(StateViews::of(handle_, module, id));
  return views;
}

void Run::save() {
  called(handle_.get(), RunCall::save, [](RunBody& body) { body.save(); });
}
void Run::save_checkpoint() {
  called(handle_.get(), RunCall::save_checkpoint, [](RunBody& body) { body.save_checkpoint(); });
}

TrainReport Run::finish() {
  TrainReport report =
      called(handle_.get(), RunCall::finish, [](RunBody& body) { return body.finish(); });
  close();
  return report;
}

void Run::close() {
  if (!is_open()) return;
  const std::unique_ptr<Job> job = handle_->body->take_job();
  handle_->body.reset();
  leave(job);
}

}  // namespace snug
