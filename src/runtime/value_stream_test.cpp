#include "runtime/value_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "hal/cpu/cpu_device.h"
#include "runtime/testing/far_device.h"
#include "runtime/testing/moved_weights.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using std::chrono::milliseconds;
using testing_ops::FarDevice;
using testing_ops::MovedWeights;

TEST(RingRoom, GivesNoByteTwice) {
  std::mt19937 random(1);
  constexpr int64_t kBytes = 40 * RingRoom::kGrain;
  RingRoom room(kBytes);
  std::deque<std::pair<int64_t, int64_t>> taken;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto bytes = static_cast<int64_t>(1 + random() % (12 * RingRoom::kGrain));
    const std::optional<int64_t> place = room.take(bytes);
    if (place) {
      ASSERT_GE(*place, 0);
      ASSERT_LE(*place + bytes, kBytes);
      for (const auto& [begin, end] : taken) ASSERT_TRUE(*place + bytes <= begin || end <= *place);
      taken.emplace_back(*place, *place + bytes);
    } else {
      ASSERT_FALSE(taken.empty()) << "an empty ring refuses " << bytes;
      ++refused;
    }
    if (!place || random() % 3 == 0) {
      room.give_back_oldest();
      taken.pop_front();
    }
  }
  EXPECT_GT(refused, 100);
}

// Values of these sizes, on the device, that no program touches.
struct Values {
  Values(Device& device, const std::vector<int64_t>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i)
      ids.push_back(add_shared(module, "v" + std::to_string(i), {Dtype::i8, {sizes[i]}},
                               Category::params, Scope::persistent));
    schedule(module, Backend::cpu);
    place(module);
    executor.emplace(module, device);
    for (const ValueId id : ids) {
      std::vector<std::byte>& bytes = content.emplace_back();
      for (int64_t b = 0; b < module[id].type.bytes(); ++b)
        bytes.push_back(std::byte(static_cast<unsigned char>((b * 7 + id.index * 13) % 251)));
      executor->write(id, bytes);
    }
  }
  Module module{.name = "values"};
  std::vector<ValueId> ids;
  std::vector<std::vector<std::byte>> content;
  std::optional<Executor> executor;
};

std::vector<std::byte> looked_at(ValueStream& stream, ValueId id) {
  std::vector<std::byte> seen;
  stream.look(id, [&](std::span<const std::byte> next) {
    seen.insert(seen.end(), next.begin(), next.end());
  });
  return seen;
}

TEST(ValueStream, PrefetchesThroughAnyStaging) {
  for (const int64_t bytes : {0, 1024, 4096, 100'000, 1'000'000}) {
    FarDevice device;
    Values values(device, {1, 5000, 3, 257, 70'000, 1024, 8});
    std::vector<std::byte> staging(static_cast<size_t>(bytes));
    ValueStream stream(*values.executor, values.ids, staging);
    for (size_t i = 0; i < values.ids.size(); ++i)
      EXPECT_EQ(looked_at(stream, values.ids[i]), values.content[i]) << bytes << " " << i;
    EXPECT_EQ(device.host_asked.size(), bytes == 0 ? 1U : 0U);
  }
}

TEST(ValueStream, CopiesAllAtOnceWhereStagingFits) {
  FarDevice device;
  Values values(device, {1, 5000, 3, 257, 70'000});
  std::vector<std::byte> staging(
      static_cast<size_t>(ValueStream::staging_for(values.module, values.ids)));
  ValueStream stream(*values.executor, values.ids, staging);
  looked_at(stream, values.ids[0]);
  EXPECT_EQ(std::accumulate(device.copied.begin(), device.copied.end(), int64_t{0}), 75'261);
  const std::vector<std::byte> other(5000);
  values.executor->write(values.ids[1], other);  // the write did not wait for the reader
  EXPECT_EQ(looked_at(stream, values.ids[1]), values.content[1]);
}

TEST(ValueStream, RequiresReadingInOrder) {
  const auto device = cpu_device();
  Values values(*device, {100, 200});
  ValueStream stream(*values.executor, values.ids, {});
  EXPECT_THROW(looked_at(stream, values.ids[1]), Error);
}

TEST(ValueStream, BlocksWritersUntilRead) {
  const auto device = cpu_device();
  Values values(*device, {100, 200});
  ValueStream stream(*values.executor, values.ids, {});
  std::atomic<bool> written = false;
  std::thread writer([&] {
    const std::vector<std::byte> other(200);
    values.executor->write(values.ids[1], other);
    written = true;
  });
  EXPECT_EQ(looked_at(stream, values.ids[0]), values.content[0]);
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(written);
  EXPECT_EQ(looked_at(stream, values.ids[1]), values.content[1]);
  writer.join();
}

TEST(ValueStream, StopsBlockingAfterGiveUp) {
  const auto device = cpu_device();
  Values values(*device, {100, 200});
  const std::vector<std::byte> other(200);
  {
    ValueStream stream(*values.executor, values.ids, {});
    stream.give_up();
    values.executor->write(values.ids[1], other);
  }
  values.executor->write(values.ids[1], other);
  EXPECT_FALSE(values.executor->before_write);
}

// Random programs on lanes that fetch weights, compute, and write them back: what is read meanwhile
// is what was there before, and the programs' results are the same without reading.
TEST(ValueStream, SeesStateBeforeRunningProgram) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const bool disk = seed % 3 == 0;
    const MovedWeights f(seed, {.disk = disk});
    const auto device = cpu_device();
    Executor plain(f.module, *device, {.offload_dir = "/tmp"});
    Executor read(
        f.module, *device,
        {.test = {.order_seed = seed % 2 == 0 ? std::nullopt : std::optional<uint64_t>(seed)},
         .offload_dir = "/tmp"});
    for (Executor* e : {&plain, &read}) f.fill(*e);
    for (int run = 0; run < 3; ++run) {
      std::vector<std::vector<std::byte>> before, seen;
      for (const ValueId id : f.weights) {
        before.emplace_back(static_cast<size_t>(f.module[id].type.bytes()));
        read.read(id, before.back());
      }
      {
        ValueStream stream(read, f.weights, {});
        std::thread reader([&] {
          for (const ValueId id : f.weights) {
            std::this_thread::sleep_for(milliseconds(1));
            seen.push_back(looked_at(stream, id));
          }
        });
        f.run(read, run);
        reader.join();
      }
      EXPECT_EQ(seen, before) << seed << " " << run;
      f.run(plain, run);
      EXPECT_EQ(f.result(read), f.result(plain)) << seed << " " << run;
    }
  }
}

}  // namespace
}  // namespace snug
