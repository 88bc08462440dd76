#include "runtime/op_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "hal/cpu/cpu_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

int64_t launches = 0;

Cost product_cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 1000 * op.in(0).bytes()};
}
void product_cpu(const KernelArgs& a) {
  ++launches;
  std::this_thread::sleep_for(std::chrono::microseconds(a.attrs.i("us")));
  std::copy_n(a.in<float>(0), a.out(0).elements(), a.out<float>(0));
}
// Much arithmetic for its bytes.
const OpDef product{.kind = "product",
                    .inputs = {"x"},
                    .outputs = {"y"},
                    .infer = testing_ops::like_first,
                    .cost = product_cost,
                    .kernels = {{Backend::cpu, Dtype::f32, product_cpu}}};

struct Products : testing_ops::Fixture {
  explicit Products(std::initializer_list<int64_t> microseconds) {
    ValueId at = x;
    for (const int64_t us : microseconds) {
      const std::string name = fmt::format("product.{}", names_++);
      at = b.emit(product, name, {at}, {{"us", us}})[0];
    }
    finish(at);
    placed();
  }
  std::vector<OpTime> times() {
    const auto device = cpu_device();
    Executor executor(module, *device);
    executor.run("p");
    launches = 0;
    return time_ops(executor, "p");
  }

 private:
  int names_ = 0;
};

TEST(OpTimes, EveryOpIsTimedArithmeticAlsoAlone) {
  const std::vector<OpTime> times = Products({200, 2000}).times();
  ASSERT_EQ(times.size(), 3U);
  EXPECT_GE(times[0].ms, 0.2);
  EXPECT_GE(times[0].alone_ms, 0.2);
  EXPECT_GE(times[1].ms, 2.0);
  EXPECT_GE(times[1].alone_ms, 2.0);
  EXPECT_EQ(times[2].alone_ms, 0) << "scale is bound by its bytes";
}

TEST(OpTimes, EqualOpsAreTimedOnce) {
  const std::vector<OpTime> times = Products({10, 20, 10, 10}).times();
  const int64_t four_products = launches;
  EXPECT_EQ(times[0].alone_ms, times[2].alone_ms);
  EXPECT_EQ(times[0].alone_ms, times[3].alone_ms);
  Products({10, 20}).times();
  const int64_t runs = (four_products - launches) / 2;  // each adds two launches to every run
  EXPECT_GT(runs, 5);
  EXPECT_GE(launches - 2 * runs, 2 * 10) << "ten launches or more of each alone";
}

}  // namespace
}  // namespace snug
