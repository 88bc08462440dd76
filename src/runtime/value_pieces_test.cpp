#include "runtime/value_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/rng.h"
#include "hal/cpu/cpu_device.h"
#include "runtime/initialise.h"
#include "runtime/testing/far_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using testing_ops::FarDevice;

constexpr int64_t kPiece = ValuePieces::kPieceBytes;

// One value of so many floats, of no program.
class OneValue {
 public:
  OneValue(Device& device, int64_t floats, Init init = {}, Space space = Space::device) {
    add_shared(module_, "w", {Dtype::f32, {floats}}, Category::params, Scope::persistent,
               {.init = init});
    id_ = module_.find_shared("w");
    module_[id_].space = space;
    schedule(module_, Backend::cpu);
    place(module_);
    executor_.emplace(module_, device);
  }
  Executor& executor() { return *executor_; }
  ValuePart part() const { return whole(module_, id_); }
  std::vector<float> content() {
    std::vector<float> out(static_cast<size_t>(module_[id_].type.shape.elements()));
    executor_->read(id_, std::as_writable_bytes(std::span(out)));
    return out;
  }

 private:
  Module module_{.name = "one"};
  ValueId id_;
  std::optional<Executor> executor_;
};

// Numbers its floats from `first` on.
MakePiece counting(float first) {
  return [next = first](std::span<std::byte> piece) mutable {
    std::vector<float> numbers(piece.size() / sizeof(float));
    std::iota(numbers.begin(), numbers.end(), next);
    next += static_cast<float>(numbers.size());
    std::memcpy(piece.data(), numbers.data(), piece.size());
  };
}

TEST(ValuePieces, AreTransferredInBoundedPieces) {
  FarDevice device;
  constexpr int64_t kFloats = 2 * kPiece / 4 + 10;
  OneValue value(device, kFloats);
  ValuePieces pieces(value.executor());
  pieces.make(value.part(), counting(0));
  EXPECT_THAT(device.up, ::testing::ElementsAre(kPiece, kPiece, 40));
  EXPECT_TRUE(device.aligned);
  std::vector<float> want(kFloats), got;
  std::iota(want.begin(), want.end(), 0.0F);
  pieces.look(value.part(), [&](std::span<const std::byte> next) {
    const auto* floats = reinterpret_cast<const float*>(next.data());
    got.insert(got.end(), floats, floats + next.size() / sizeof(float));
  });
  EXPECT_THAT(device.down, ::testing::ElementsAre(kPiece, kPiece, 40));
  EXPECT_EQ(got, want);
}

TEST(ValuePieces, PartPiecesAlignToMultiplesOfValue) {
  FarDevice device;
  OneValue value(device, 3 * kPiece / 4);
  ValuePieces pieces(value.executor());
  value.executor().zero(value.part().value);
  pieces.make({value.part().value, kPiece - 8, kPiece + 16}, counting(1));
  EXPECT_THAT(device.up, ::testing::ElementsAre(8, kPiece, 8));
  const std::vector<float> content = value.content();
  const size_t first = (kPiece - 8) / 4;
  EXPECT_THAT(std::span(content).subspan(first - 1, 4), ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(content[2 * kPiece / 4 + 1], kPiece / 4 + 4);
  EXPECT_EQ(content[2 * kPiece / 4 + 2], 0);
}

TEST(ValuePieces, ResideWhereHostAddresses) {
  FarDevice far;
  const auto near = cpu_device();
  for (Device* device : {static_cast<Device*>(&far), near.get()}) {
    OneValue value(*device, 10, {}, device == &far ? Space::host : Space::device);
    ValuePieces pieces(value.executor());
    const std::byte* at = nullptr;
    pieces.make(value.part(), [&](std::span<std::byte> next) {
      at = next.data();
      counting(3)(next);
    });
    EXPECT_EQ(at, value.executor().bytes(value.part().value).data());
    EXPECT_EQ(value.content()[9], 12);
  }
  EXPECT_THAT(far.up, ::testing::IsEmpty());
}

TEST(ValuePieces, InitialiseAsOnePiece) {
  const Init normal{Init::Kind::normal, 0.5};
  constexpr int64_t kFloats = kPiece / 4 + 3;
  FarDevice far;
  OneValue there(far, kFloats, normal);
  initialise(there.executor(), 7);
  EXPECT_THAT(far.up, ::testing::ElementsAre(kPiece, 12));
  const std::vector<float> got = there.content();
  for (const int64_t at : {int64_t{0}, int64_t{1}, kPiece / 4 - 1, kPiece / 4, kFloats - 1}) {
    const auto draw = normal_pair(random_key(7, 0, hash_name("w")), static_cast<uint64_t>(at / 2));
    EXPECT_EQ(got[static_cast<size_t>(at)],
              static_cast<float>(0.5 * draw[static_cast<size_t>(at % 2)]))
        << at;
  }
}

TEST(ValuePieces, LoadedValuesAreNotInitialised) {
  FarDevice device;
  OneValue value(device, 4, {Init::Kind::constant, 1});
  initialise(value.executor(), 7, {value.part().value});
  EXPECT_THAT(device.up, ::testing::IsEmpty());
  initialise(value.executor(), 7);
  EXPECT_THAT(value.content(), ::testing::Each(1));
}

}  // namespace
}  // namespace snug
