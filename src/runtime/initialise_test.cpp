#include "runtime/initialise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

#include "base/half.h"
#include "hal/cpu/cpu_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using ::testing::Each;

using Contents = std::map<std::string, std::vector<float>>;

constexpr Init kNormal{Init::Kind::normal, 0.5};

struct Parameter {
  const char* name;
  int64_t size;
  Init init;
};

// What the parameters hold after initialise, declared in this order.
Contents contents(uint64_t seed, const std::vector<Parameter>& parameters) {
  Module module{.name = "toy"};
  for (const Parameter& p : parameters) {
    add_shared(module, p.name, {Dtype::f32, {p.size}}, Category::params, Scope::persistent,
               {.init = p.init});
  }
  add_shared(module, "fed", {Dtype::f32, {3}}, Category::inputs, Scope::step);
  schedule(module, Backend::cpu);
  place(module);
  const auto device = cpu_device();
  Executor executor(module, *device);
  initialise(executor, seed);
  Contents out;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const auto values = executor.values<float>({static_cast<int32_t>(i)});
    out[module.values[i].name] = {values.begin(), values.end()};
  }
  return out;
}

TEST(Initialise, FollowsTheInitialisers) {
  const Contents c = contents(
      1, {{"zeros", 7, {}}, {"ones", 5, {Init::Kind::constant, 1}}, {"weights", 20'001, kNormal}});
  EXPECT_THAT(c.at("zeros"), Each(0));
  EXPECT_THAT(c.at("ones"), Each(1));
  EXPECT_THAT(c.at("fed"), Each(0));
  const auto& w = c.at("weights");
  const auto n = static_cast<double>(w.size());
  const double mean = std::reduce(w.begin(), w.end(), 0.0) / n;
  const double square = std::inner_product(w.begin(), w.end(), w.begin(), 0.0) / n;
  EXPECT_NEAR(mean, 0, 0.02);
  EXPECT_NEAR(std::sqrt(square), 0.5, 0.02);
  EXPECT_NE(w.back(), 0) << "an odd size has its last one too";
}

TEST(Initialise, DependsOnSeedAndNameAlone) {
  const std::vector<Parameter> two{{"a", 33, kNormal}, {"b", 33, kNormal}};
  const Contents first = contents(1, two);
  EXPECT_EQ(contents(1, two), first);
  EXPECT_EQ(contents(1, {two[1], {"c", 400, kNormal}, two[0]}).at("a"), first.at("a"));
  EXPECT_NE(first.at("a"), first.at("b"));
  EXPECT_NE(contents(2, two).at("a"), first.at("a"));
}

TEST(Initialise, HalvesDrawSameNumbersIntegersAreRefused) {
  const auto run = [](Dtype dtype, auto look) {
    Module module{.name = "toy"};
    add_shared(module, "w", {dtype, {5}}, Category::params, Scope::persistent, {.init = kNormal});
    schedule(module, Backend::cpu);
    place(module);
    const auto device = cpu_device();
    Executor executor(module, *device);
    initialise(executor, 1);
    return look(executor);
  };
  const auto exact = run(Dtype::f32, [](const Executor& e) {
    const auto v = e.values<float>(e.shared("w"));
    return std::vector<float>(v.begin(), v.end());
  });
  const auto rounded = run(Dtype::bf16, [](const Executor& e) {
    const auto v = e.values<Bf16>(e.shared("w"));
    return std::vector<float>(v.begin(), v.end());
  });
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_EQ(rounded[i], float(Bf16(exact[i])));
  EXPECT_THROW(run(Dtype::i32, [](const Executor&) { return 0; }), Error);
}

}  // namespace
}  // namespace snug
