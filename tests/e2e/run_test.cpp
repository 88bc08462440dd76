// The run that a program holds: what it computes is what `train` does, and it ends where it is closed.
#include "snug/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "formats/testing.h"

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TempDir;
using testing::write_bytes;

Options tiny(int64_t steps = 3) {
  Options o;
  o.model = "snug-tiny";
  o.data = "synthetic";
  o.device = DeviceChoice::cpu;
  o.precision = ComputeType::fp32;
  o.batch = 2;
  o.seq = 32;
  o.steps = steps;
  return o;
}

// Of every step, as a loop that `train` runs reports it.
std::vector<double> trained_losses(const Options& options) {
  std::vector<double> losses;
  TrainObserver observer;
  observer.stepped = [&](const StepReport& r) { losses.push_back(r.loss); };
  train(options, observer);
  return losses;
}

std::vector<double> stepped_losses(Run& run, int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i) {
    run.step();
    losses.push_back(run.metrics().value().loss);
  }
  return losses;
}

std::vector<std::vector<std::byte>> bytes_of(const std::vector<StateView>& views) {
  std::vector<std::vector<std::byte>> all;
  for (const StateView& view : views) all.push_back(view.read());
  return all;
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return error.what();
  }
  return "it was not refused";
}

TEST(Run, StepsAsTrainDoes) {
  snug::Run run = snug::Run::open(tiny());
  EXPECT_FALSE(run.metrics().has_value());
  EXPECT_EQ(run.steps(), 0);
  EXPECT_EQ(stepped_losses(run, 3), trained_losses(tiny()));
  EXPECT_TRUE(run.done());
  EXPECT_THAT(refusal([&] { run.step(); }), HasSubstr("done: 3 of 3"));
  const TrainReport report = run.finish();
  EXPECT_EQ(report.steps, 3);
  EXPECT_FALSE(run.is_open());
}

TEST(Run, RunsFollowEachOtherInOneProcess) {
  Options one_thread = tiny();
  one_thread.threads = 1;
  const std::vector<double> first = trained_losses(tiny());
  snug::Run::open(one_thread).close();
  snug::Run again = snug::Run::open(tiny());
  EXPECT_EQ(stepped_losses(again, 3), first);
  Options other = tiny();
  other.seed = 2;
  again = snug::Run::open(other);
  EXPECT_NE(stepped_losses(again, 3), first);
}

TEST(Run, ContinuesFromSave) {
  const TempDir directory;
  Options o = tiny();
  o.out = (directory / "run").string();
  snug::Run run = snug::Run::open(o);
  const std::vector<double> all = stepped_losses(run, 2);
  run.save_checkpoint();
  const auto state = bytes_of(run.state());
  std::vector<double> rest = stepped_losses(run, 1);
  run.close();

  Options resumed;
  resumed.resume = o.out;
  resumed.given = {"resume"};
  snug::Run again = snug::Run::open(resumed);
  EXPECT_EQ(again.steps(), 2);
  EXPECT_EQ(bytes_of(again.state()), state);
  EXPECT_EQ(stepped_losses(again, 1), rest);
  const auto parameters = bytes_of(again.parameters());
  again.finish();
  EXPECT_TRUE(std::filesystem::exists(directory / "run" / "model.safetensors"));

  Options evaluated = tiny();
  evaluated.model = o.out;
  write_bytes(directory / "text.txt", std::string(300, 'a'));
  evaluated.data = (directory / "text.txt").string();
  snug::Run evaluation = snug::Run::open_evaluation(evaluated);
  EXPECT_EQ(bytes_of(evaluation.parameters()), parameters);
  EXPECT_GT(evaluation.evaluate().tokens, 0);
  EXPECT_THAT(refusal([&] { evaluation.step(); }), HasSubstr("takes no step"));
}

TEST(Run, ShowsGradientsOfTheLastStep) {
  snug::Run run = snug::Run::open(tiny());
  run.step();
  double sum = 0;
  for (const StateView& gradient : run.gradients())
    for (const float g : gradient.floats()) sum += static_cast<double>(g) * g;
  const double norm = run.metrics().value().grad_norm;
  EXPECT_NEAR(std::sqrt(sum), norm, 1e-5 * norm);
}

TEST(Run, ViewsAreOfTheMomentOfReading) {
  snug::Run run = snug::Run::open(tiny());
  const StateView view = run.parameters().front();
  EXPECT_EQ(view.category(), "params");
  EXPECT_EQ(view.dtype(), "f32");
  EXPECT_EQ(view.shape(), view.whole());
  const std::vector<std::byte> before = view.read();
  EXPECT_THAT(before, SizeIs(view.bytes()));
  run.step();
  EXPECT_NE(view.read(), before);
  float second = 0;
  view.read(std::as_writable_bytes(std::span(&second, 1)), sizeof(float));
  EXPECT_EQ(second, view.floats()[1]);
  std::vector<std::byte> more(before.size());
  EXPECT_THAT(refusal([&] { view.read(more, 1); }), HasSubstr("bytes"));
}

TEST(Run, ViewsOutliveTheRunAndRefuse) {
  StateView view;
  {
    snug::Run run = snug::Run::open(tiny());
    view = run.parameters().front();
  }
  EXPECT_THAT(refusal([&] { view.read(); }), HasSubstr("closed"));
}

TEST(Run, UseAfterCloseIsRefused) {
  snug::Run run = snug::Run::open(tiny());
  run.close();
  run.close();
  EXPECT_THAT(refusal([&] { run.step(); }), HasSubstr("closed"));
  EXPECT_THAT(refusal([&] { run.metrics(); }), HasSubstr("closed"));
  EXPECT_THAT(refusal([&] { run.parameters(); }), HasSubstr("closed"));
  EXPECT_THAT(refusal([&] { run.finish(); }), HasSubstr("closed"));
}

TEST(Run, RefusalLeavesItOpen) {
  snug::Run run = snug::Run::open(tiny());
  EXPECT_THAT(refusal([&] { run.save(); }), HasSubstr("no directory"));
  EXPECT_THAT(refusal([&] { run.evaluate(); }), HasSubstr("held-out"));
  run.step();
  EXPECT_EQ(run.steps(), 1);
}

TEST(Run, FailedSaveLeavesItOpen) {
  const TempDir directory;
  Options o = tiny();
  o.out = (directory / "run").string();
  snug::Run run = snug::Run::open(o);
  run.step();
  {
    const testing::FileSizeLimit small(64);
    testing::expect_error(ExitCode::bad_input, "run", [&] { run.save(); });
  }
  run.step();
  run.save();
  EXPECT_TRUE(std::filesystem::exists(directory / "run" / "model.safetensors"));
}

TEST(Run, EvaluatesHeldOutData) {
  const TempDir directory;
  std::string text;
  for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
  Options o = tiny();
  write_bytes(directory / "text.txt", text);
  o.data = (directory / "text.txt").string();
  o.holdout = 0.2;
  std::vector<double> told;
  TrainObserver observer;
  observer.evaluated = [&](int64_t, double loss) { told.push_back(loss); };
  snug::Run run = snug::Run::open(o, observer);
  run.step();
  const EvalReport report = run.evaluate();
  EXPECT_THAT(told, ElementsAre(::testing::_, report.loss));
  EXPECT_GT(report.tokens, 0);
}

TEST(Run, FailureOfACallbackClosesIt) {
  TrainObserver observer;
  observer.stepped = [](const StepReport&) { throw std::runtime_error("mine"); };
  snug::Run run = snug::Run::open(tiny(), observer);
  EXPECT_THROW(run.step(), std::runtime_error);
  EXPECT_FALSE(run.is_open());
}

TEST(Run, NullDeviceIsDoneAtOnce) {
  Options o = tiny();
  o.device = DeviceChoice::null;
  snug::Run run = snug::Run::open(o);
  EXPECT_TRUE(run.done());
  EXPECT_THAT(refusal([&] { run.step(); }), HasSubstr("computes nothing"));
  EXPECT_EQ(run.finish().steps, 0);
}

}  // namespace
}  // namespace snug
