#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "hal/cpu/cpu_device.h"
#include "ops/basic/copy.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_ops::Fixture;

// Counts what is asked of it.
class CountingDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cpu; }
  std::string_view name() const override { return "counting"; }
  std::unique_ptr<Memory> allocate(int64_t bytes) override {
    asked.push_back(bytes);
    return cpu_->allocate(bytes);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override { cpu_->upload(to, from); }
  void download(std::span<std::byte> to, const std::byte* from) override {
    cpu_->download(to, from);
  }
  std::unique_ptr<Reading> read_later(std::span<const Piece> pieces) override {
    return cpu_->read_later(pieces);
  }
  void fill(std::span<std::byte> bytes, uint8_t value) override { cpu_->fill(bytes, value); }
  // With a lane its kernels count as enqueued. What is recorded runs once, while it is recorded.
  void* stream() const override { return lane; }
  std::unique_ptr<Recording> record(const std::function<void()>& enqueue) override {
    struct Recorded final : Recording {
      void launch() override {}
    };
    enqueue();
    return std::make_unique<Recorded>();
  }
  std::vector<int64_t> asked;
  void* lane = nullptr;

 private:
  std::unique_ptr<Device> cpu_ = cpu_device();
};

// x -> reverse -> scale 2 -> y
struct Reversed : Fixture {
  ValueId middle = b.emit(testing_ops::reverse, "middle", {x})[0];
  Reversed() {
    finish(middle, 2);
    placed();
  }
};

void count_up(std::span<float> out) { std::iota(out.begin(), out.end(), 0.0F); }

TEST(Executor, RunsAProgramInsideOneAllocation) {
  Reversed f;
  CountingDevice device;
  Executor executor(f.module, device);
  EXPECT_THAT(device.asked, ElementsAre(f.module.arena_bytes[0]));
  EXPECT_EQ(executor.planned_bytes(), f.module.arena_bytes[0]);
  EXPECT_EQ(executor.allocated_bytes(), f.module.arena_bytes[0]);

  count_up(executor.values<float>(f.x));
  executor.run("p");
  EXPECT_EQ(executor.values<float>(f.y)[0], 126);
  EXPECT_EQ(executor.values<float>(f.y)[63], 0);
  EXPECT_EQ(executor.measured_bytes(), executor.planned_bytes());
  EXPECT_EQ(device.asked.size(), 1U);
}

TEST(Executor, RefusesBadProgramsBeforeAllocating) {
  CountingDevice device;
  auto refusal = [&](const Module& module) -> std::string {
    try {
      Executor executor(module, device);
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing was refused";
  };
  Fixture without;
  without.finish(without.b.emit(testing_ops::no_kernel, "strange", {without.x})[0]);
  EXPECT_THAT(refusal(without.placed()), HasSubstr("no_kernel 'strange' has no f32 kernel"));

  Fixture on_disk;
  const ValueId there = ops::copy(on_disk.b, "out", on_disk.x, Space::disk);
  on_disk.finish(ops::copy(on_disk.b, "in", there));
  EXPECT_THAT(refusal(on_disk.placed()),
              HasSubstr("(256 bytes) live on disk, and nothing says where that is"));

  Reversed early;
  early.module.level = Level::step;
  EXPECT_THAT(refusal(early.module), HasSubstr("is not placed"));
  EXPECT_THAT(device.asked, ::testing::IsEmpty());
}

TEST(Executor, WritesAndReadsPiecesOfAValue) {
  Reversed f;
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  executor.zero(f.x);
  const std::vector<float> piece{7, 8, 9};
  executor.write(f.x, 2 * sizeof(float), std::as_bytes(std::span(piece)));
  EXPECT_THAT(executor.values<float>(f.x).first(6), ElementsAre(0, 0, 7, 8, 9, 0));
  std::vector<float> back(2);
  executor.read(f.x, 3 * sizeof(float), std::as_writable_bytes(std::span(back)));
  EXPECT_THAT(back, ElementsAre(8, 9));

  const auto end = static_cast<int64_t>(64 * sizeof(float));
  executor.write(f.x, end - 12, std::as_bytes(std::span(piece)));
  EXPECT_EQ(executor.values<float>(f.x)[63], 9);
  EXPECT_THROW(executor.write(f.x, end - 8, std::as_bytes(std::span(piece))), Error);
  EXPECT_THROW(executor.write(f.x, -4, std::as_bytes(std::span(piece))), Error);
  EXPECT_THROW(executor.read(f.x, end - 4, std::as_writable_bytes(std::span(back))), Error);
}

TEST(Executor, NamesMissingProgramOrValue) {
  Reversed f;
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  EXPECT_THROW(executor.run("q"), Error);
  EXPECT_THROW(executor.shared("z"), Error);
}

TEST(Executor, ZeroPredicateSkipsOp) {
  Fixture f;
  const ValueId go = add_shared(f.module, "go", {Dtype::i32, {}}, Category::inputs, Scope::step);
  const ValueId state =
      add_shared(f.module, "state", testing_ops::kVector, Category::buffers, Scope::persistent);
  f.b.emit(testing_ops::add_to, "add", {state, f.x});
  f.b.last().predicate = go;
  f.placed();
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  std::ranges::fill(executor.values<float>(f.x), 1.0F);
  std::ranges::fill(executor.values<float>(state), 5.0F);
  for (const auto& [predicate, sum] : {std::pair{0, 5.0F}, {1, 6.0F}, {0, 6.0F}, {7, 7.0F}}) {
    executor.scalar<int32_t>(go) = predicate;
    executor.run("p");
    EXPECT_THAT(executor.values<float>(state), Each(sum)) << predicate;
  }
}

TEST(Executor, ViewsAddressTheirBytes) {
  Fixture f;
  const ValueId back = f.b.emit(testing_ops::reverse, "back", {f.x})[0];
  const ValueId part = f.b.view(back, "part", {32}, 16);
  const ValueId inner = f.b.view(part, "inner", {8}, 4);
  const ValueId out =
      add_shared(f.module, "out", {Dtype::f32, {8}}, Category::activations, Scope::step);
  f.b.emit_into(testing_ops::scale, "take", {inner}, out, {{"by", 1.0}});
  f.placed();
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  count_up(executor.values<float>(f.x));
  executor.run("p");
  EXPECT_EQ(executor.bytes(inner).data() - executor.bytes(back).data(), (16 + 4) * 4);
  EXPECT_EQ(executor.bytes(inner).size(), 32U);
  EXPECT_THAT(executor.values<float>(out), ElementsAre(43, 42, 41, 40, 39, 38, 37, 36));
}

TEST(Executor, CallsTheObserverAfterEveryOp) {
  Reversed f;
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  count_up(executor.values<float>(f.x));
  std::vector<std::pair<size_t, size_t>> seen;
  executor.observe = [&](size_t program, size_t op) {
    seen.emplace_back(program, op);
    EXPECT_EQ(executor.values<float>(f.middle)[0], 63) << "made, and still alive";
  };
  executor.run("p");
  EXPECT_THAT(seen, ElementsAre(std::pair(0, 0), std::pair(0, 1)));
}

// add_to, of which a device with a stream runs many together. How many at a time is written down.
std::vector<size_t> ran_together;
const OpDef add_many{.kind = "add_many",
                     .inputs = {"state", "x"},
                     .outputs = {"next"},
                     .infer = testing_ops::like_first,
                     .alias = {{.output = 0, .input = 0, .must = true}},
                     .kernels = {{.backend = Backend::cpu,
                                  .dtype = Dtype::f32,
                                  .run =
                                      [](const KernelArgs& a) {
                                        ran_together.push_back(1);
                                        testing_ops::add_to_cpu(a);
                                      },
                                  .predicated = true,
                                  .run_many =
                                      [](std::span<const KernelArgs> all) {
                                        ran_together.push_back(all.size());
                                        for (const KernelArgs& a : all) testing_ops::add_to_cpu(a);
                                      }}}};

TEST(Executor, BatchesIndependentOps) {
  Fixture f;
  std::vector<ValueId> states;
  for (const char* name : {"a", "b", "c"}) {
    states.push_back(
        add_shared(f.module, name, testing_ops::kVector, Category::buffers, Scope::persistent));
    f.b.emit(add_many, std::string("add.") + name, {states.back(), f.x});
  }
  f.placed();
  int lane = 0;
  CountingDevice device;
  const auto run = [&](Executor& executor) {
    ran_together.clear();
    executor.run("p");
    return ran_together;
  };
  Executor on_host(f.module, device);
  EXPECT_THAT(run(on_host), ElementsAre(1, 1, 1));

  device.lane = &lane;
  Executor on_stream(f.module, device);
  for (ValueId state : states) std::ranges::fill(on_stream.values<float>(state), 0.0F);
  std::ranges::fill(on_stream.values<float>(f.x), 1.0F);
  on_stream.observe = [](size_t, size_t) {};
  EXPECT_THAT(run(on_stream), ElementsAre(1, 1, 1)) << "each op is observed";
  on_stream.observe = nullptr;
  for (const char* how : {"walked", "recorded"}) EXPECT_THAT(run(on_stream), ElementsAre(3)) << how;
  for (ValueId state : states) EXPECT_THAT(on_stream.values<float>(state), Each(3.0F));
  EXPECT_THAT(run(on_stream), ::testing::IsEmpty()) << "replayed";

  Executor poisoned(f.module, device, {.test = {.poison_dead = true}});
  EXPECT_THAT(run(poisoned), ElementsAre(1, 1, 1));
}

// The trap: three updates that follow each other, each of what was fetched for it.
TEST(Executor, OpsWithDifferentFetchesRunApart) {
  Fixture f;
  std::vector<ValueId> fetched;
  for (const char* name : {"a", "b", "c"}) {
    const ValueId on_host =
        add_shared(f.module, name, testing_ops::kVector, Category::buffers, Scope::persistent);
    f.module[on_host].space = Space::host;
    fetched.push_back(ops::copy(f.b, std::string(name) + ".fetch", on_host));
    f.b.last().lane = "copy_in";
  }
  for (const ValueId state : fetched)
    f.b.emit(add_many, f.module[state].name + ".add", {state, f.x});
  int lane = 0;
  CountingDevice device;
  device.lane = &lane;
  f.placed();
  const auto run = [&] {
    Executor executor(f.module, device);
    ran_together.clear();
    executor.run("p");
    return ran_together;
  };
  EXPECT_THAT(run(), ElementsAre(1, 1, 1));
  for (Op& op : f.module.programs[0].ops) op.lane = "compute";
  EXPECT_THAT(run(), ElementsAre(3)) << "on one lane";
}

TEST(Executor, PoisonOverwritesDeadValues) {
  Reversed f;
  const auto device = cpu_device();
  for (const bool poison : {false, true}) {
    Executor executor(f.module, *device, {.test = {.poison_dead = poison}});
    count_up(executor.values<float>(f.x));
    executor.run("p");
    EXPECT_EQ(executor.values<float>(f.y)[0], 126) << "the results are the same";
    EXPECT_EQ(std::isnan(executor.values<float>(f.middle)[0]), poison);
    EXPECT_EQ(executor.values<float>(f.x)[1], 1) << "what is shared stays";
  }
}

TEST(Executor, StepRunsAndFeedsProgramsInOrder) {
  Reversed f;
  f.module.step = {{2, {"p"}}};
  const auto device = cpu_device();
  Executor executor(f.module, *device);
  std::vector<std::string> fed;
  executor.run_step([&](const Program& program) {
    fed.emplace_back(program.name);
    std::ranges::fill(executor.values<float>(f.x), static_cast<float>(fed.size()));
  });
  EXPECT_THAT(fed, ElementsAre("p", "p"));
  EXPECT_THAT(executor.values<float>(f.y), Each(4));
}

}  // namespace
}  // namespace snug
