#include "cost/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "compile/compile.h"
#include "cost/op_work.h"
#include "cost/step_cost.h"
#include "ir/toy_ops.h"
#include "models/model.h"

namespace snug {
namespace {

Module tiny() {
  return compile("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 64}), {});
}

double bytes_of(const Cost& cost) {
  return static_cast<double>(cost.bytes_read + cost.bytes_written);
}

// Every op of a module, at a rate that no catalogue would guess.
Calibration slow_machine(const Module& module) {
  Calibration c{"an abacus", 2, "", "2026-11-15", 1e6, {}};
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) {
      const OpWork work = work_of(module, op, Backend::cpu, {});
      c.samples.push_back({work, 1e-3 + work.bytes / 1e6});
    }
  }
  return c;
}

TEST(CostModel, RanksOnOneMachineShareItsCores) {
  const Module module = tiny();
  const CostModel alone(this_cpu(2), {}, slow_machine(module));
  const auto with = [&](double cores) {
    CostModel model = alone;
    model.share_cores({.cores = cores, .compute = 2});
    return model;
  };
  const double seconds = step_cost(module, alone).step_seconds;
  EXPECT_NEAR(step_cost(module, with(1)).step_seconds, 2 * seconds, 1e-9 * seconds);
  EXPECT_NEAR(step_cost(module, with(2)).step_seconds, seconds, 1e-9 * seconds);
  EXPECT_EQ(with(1).origin_of_moves(module), "each rank has 1 core for its lanes");
  EXPECT_EQ(with(0.5).origin_of_moves(module), "each rank has 0.5 cores for its lanes");
  EXPECT_EQ(with(3).origin_of_moves(module), "");
}

TEST(CostModel, NamesItsMeasurements) {
  const Module module = tiny();
  const CostModel model(this_cpu(2), {}, slow_machine(module));
  EXPECT_TRUE(model.measured());
  EXPECT_EQ(model.origin(), "measurements on an abacus, 2026-11-15");
  for (const Op& op : module.program("micro_first").ops) {
    const double seconds = 1e-3 + bytes_of(cost_of(module, op, Backend::cpu)) / 1e6;
    EXPECT_NEAR(model.seconds(module, op), seconds, 1e-9 * seconds) << op.name;
    EXPECT_EQ(CostModel(model).seconds(module, op), model.seconds(module, op));
  }
}

TEST(CostModel, FallsBackToCatalogue) {
  const Module module = tiny();
  const DeviceSpec spec = this_cpu(2);
  const CostModel plain(spec, {});
  EXPECT_FALSE(plain.measured());
  EXPECT_EQ(plain.origin(), "catalogue figures of this CPU");
  const Calibration copies{
      "cpu", 2, "", "", spec.bytes_per_s, {{{"copy", Dtype::f32, false, 0, 0, 1e6, 0}, 1}}};
  const CostModel model(spec, {}, copies);
  int matmuls = 0;
  for (const Op& op : module.program("micro_first").ops) {
    const Cost cost = cost_of(module, op, Backend::cpu);
    const Roof roof = spec.roof(Dtype::f32, {}, static_cast<double>(cost.flops), bytes_of(cost));
    if (!roof.by_arithmetic()) continue;
    EXPECT_EQ(model.seconds(module, op), plain.seconds(module, op)) << op.name;
    ++matmuls;
  }
  EXPECT_GT(matmuls, 0);
}

TEST(OpWork, IntensityDecidesArithmetic) {
  EXPECT_TRUE(is_arithmetic({.flops = 1'000'000, .bytes_read = 500, .bytes_written = 500}));
  EXPECT_FALSE(is_arithmetic({.flops = 10'000, .bytes_read = 500, .bytes_written = 500}));
}

TEST(OpWork, DistinguishesOddRowMatmulsOnGpu) {
  const auto odd_ops = [](const char* model, bool chunked, Backend backend, int64_t seq = 64) {
    const Module module =
        compile("m", Model::load(model).forward({.batch = 1, .seq = seq, .chunked_loss = chunked}),
                {.precision = Dtype::bf16, .backend = backend});
    return std::ranges::count_if(module.program("micro_first").ops, [&](const Op& op) {
      return (kernel_bits(module, op, backend, cost_of(module, op, backend), {}) & kOdd) != 0;
    });
  };
  EXPECT_EQ(odd_ops("gpt2", false, Backend::cuda), 3) << "with logits of 50257 columns";
  EXPECT_EQ(odd_ops("gpt2", false, Backend::cpu), 0);
  EXPECT_EQ(odd_ops("gpt2", true, Backend::cuda), 0) << "whose head has 50257 rows, of 768 columns";
  EXPECT_EQ(odd_ops("qwen2.5-0.5b", true, Backend::cuda), 0);
  EXPECT_EQ(odd_ops("qwen2.5-0.5b", true, Backend::cuda, 62), 0) << "targets are no matrix";
}

// What micro-batches took on one (docs/performance.md).
TEST(CostModel, CatalogueIsNearAnH200) {
  const Recipe recipe{.fused_recompute = true,
                      .precision = Dtype::bf16,
                      .master = false,
                      .grad_dtype = Dtype::bf16,
                      .state_dtype = Dtype::bf16,
                      .backend = Backend::cuda};
  const CostModel h200(find_device("h200"), {});
  const auto seconds = [&](const char* model, int64_t batch) {
    const BuildOptions build{.batch = batch, .loss_chunk = 8192, .residual_in_matmul = true};
    const Module module = compile(model, Model::load(model).forward(build), recipe);
    double sum = 0;
    for (const Op& op : module.program("micro_first").ops) sum += h200.seconds(module, op);
    return sum;
  };
  EXPECT_NEAR(seconds("qwen2.5-0.5b", 32) / 0.1958, 1, 0.05);
  EXPECT_NEAR(seconds("qwen2.5-1.5b", 16) / 0.2712, 1, 0.05);
  EXPECT_NEAR(seconds("qwen2.5-7b", 4) / 0.2891, 1, 0.05);
}

TEST(CostModel, CatalogueSlowsOddVocabularies) {
  const CostModel h200(find_device("h200"), {});
  const auto seconds = [&](const char* model, bool chunked, bool fused = false) {
    const BuildOptions build{
        .batch = 8, .chunked_loss = chunked, .loss_chunk = 8192, .fused_loss = fused};
    const Module module = compile(model, Model::load(model).forward(build),
                                  {.precision = Dtype::bf16, .backend = Backend::cuda});
    double sum = 0;
    for (const Op& op : module.program("micro_first").ops) sum += h200.seconds(module, op);
    return sum;
  };
  EXPECT_GT(seconds("gpt2", false), 1.3 * seconds("gpt2", true));
  EXPECT_EQ(seconds("gpt2", false, true), seconds("gpt2", true)) << "one chunk of all tokens";
  EXPECT_LT(seconds("qwen2.5-0.5b", false), 1.1 * seconds("qwen2.5-0.5b", true));
}

// A GPT-2 of 1024 tokens on an H200. Seconds of attention: of a step's forward and backward.
struct AttentionCost {
  ServedCost cost;
  double flops = 0;
  double rate() const { return flops / cost.seconds / 1e12; }  // TFLOP/s
};
AttentionCost attention_cost(Dtype precision, const Math& math, double dropout = 0,
                             ops::AttentionKind kind = ops::AttentionKind::flash) {
  const BuildOptions build{.batch = 8, .attention = kind, .dropout = dropout};
  const Module module = compile("gpt2", Model::load("gpt2").forward(build),
                                {.precision = precision, .backend = Backend::cuda});
  AttentionCost out{served_cost(module, CostModel(find_device("h200"), math)).value()};
  for (const Op& op : module.program("micro_first").ops) {
    if (op.def->served != nullptr)
      out.flops += static_cast<double>(cost_of(module, op, Backend::cuda).flops);
  }
  return out;
}

TEST(CostModel, CatalogueAccountsForAttentionServer) {
  const AttentionCost cudnn = attention_cost(Dtype::bf16, {});
  const AttentionCost own = attention_cost(Dtype::bf16, {}, 0.1);
  const AttentionCost tf32 = attention_cost(Dtype::f32, {.tf32 = true});
  const AttentionCost plain = attention_cost(Dtype::f32, {});
  EXPECT_EQ(cudnn.cost.served.by, Server::cudnn);
  EXPECT_EQ(own.cost.served.by, Server::tensor_cores);
  EXPECT_EQ(tf32.cost.served.by, Server::tensor_cores);
  EXPECT_EQ(plain.cost.served.by, Server::plain_tiles);
  EXPECT_NEAR(plain.rate(), 10, 1) << "measured: 9 to 10 TFLOP/s";
  EXPECT_GT(tf32.rate(), 3 * plain.rate());
  EXPECT_GT(own.rate(), 1.5 * tf32.rate());
  EXPECT_GT(cudnn.rate(), 1.5 * own.rate());
  const AttentionCost standard = attention_cost(Dtype::bf16, {}, 0, ops::AttentionKind::standard);
  EXPECT_EQ(standard.cost.served.by, Server::plain_tiles);
  EXPECT_LT(standard.rate(), 11) << "in halves too";
  EXPECT_NEAR(CostModel(find_device("h200"), {}).plain_tiles_take_times(), 24, 2);
}

// x is copied to the host and back, each copy on a lane of its own; there it is changed.
struct RoundTrip {
  toy::Fixture f;
  ValueId out = copied("out", f.x, Space::host, "copy_out");
  ValueId changed = on_host();
  ValueId in = copied("in", changed, Space::device, "copy_in");

  ValueId copied(const char* name, ValueId from, Space to, const char* lane) {
    const ValueId id = f.b.emit(toy::copy, name, {from})[0];
    f.module[id].space = to;
    f.b.last().lane = lane;
    return id;
  }
  ValueId on_host() {
    const ValueId id = f.unary_on("host_compute", "changed", out);
    f.module[id].space = Space::host;
    return id;
  }
  std::vector<double> seconds(const CostModel& model) const {
    return model.seconds(f.module, f.module.program("p"));
  }
};

CostModel on_link(const Link& link) {
  DeviceSpec spec = find_device("h200");
  spec.link = link;
  return {spec, {}};
}

TEST(CostModel, CopyTakesLatencyPlusBytesOverLink) {
  RoundTrip trip;
  const double bytes = 4 * 64;
  const auto at = [&](double in, double out) {
    return trip.seconds(on_link({bytes / in, bytes / out, bytes / std::max(in, out)}));
  };
  const double latency = at(1e-30, 1e-30)[0];
  EXPECT_GT(latency, 1e-6);
  EXPECT_LT(latency, 1e-4);
  // Both lanes are in use: the slower of alone and together.
  EXPECT_NEAR(at(2, 3)[0], 3 + latency, 1e-9);
  EXPECT_NEAR(at(2, 3)[2], 3 + latency, 1e-9);
  EXPECT_EQ(at(2, 3)[1], at(1, 1)[1]) << "no link is asked on the host";
  // On one lane they follow each other, and each has the link to itself.
  for (Op& op : trip.f.module.program("p").ops) op.lane = "copies";
  EXPECT_NEAR(at(2, 3)[0], 3 + latency, 1e-9);
  EXPECT_NEAR(at(2, 3)[2], 2 + latency, 1e-9);
}

// Without offload, large matmuls are the large ops that read a parameter or make its gradient.
TEST(OpWork, MatmulsAreOpsOnParameters) {
  const Recipe recipes[] = {{}, {.precision = Dtype::bf16, .backend = Backend::cuda}};
  for (const char* name : {"gpt2", "qwen2.5-0.5b", "bert-base", "mlp:1024x2"}) {
    for (const bool chunked : {true, false}) {
      for (const Recipe& recipe : recipes) {
        const BuildOptions build{.batch = 4, .seq = 512, .chunked_loss = chunked};
        const Module module = compile(name, Model::load(name).forward(build), recipe);
        for (const Op& op : module.program("micro_first").ops) {
          const auto is = [&](Category category) {
            return
                [&, category](ValueId id) { return id.valid() && module[id].category == category; };
          };
          const bool on_parameters = std::ranges::any_of(op.inputs, is(Category::params)) ||
                                     std::ranges::any_of(op.outputs, is(Category::grads));
          const Cost cost = cost_of(module, op, recipe.backend);
          EXPECT_EQ(is_large_matmul(op, cost), on_parameters && is_arithmetic(cost)) << op.name;
          EXPECT_TRUE(on_parameters || !op.def->matmul) << op.name;
        }
      }
    }
  }
}

// A weight that was prefetched from the host is staging, no parameter.
TEST(CostModel, OffloadedWeightKeepsMatmulTime) {
  const CostModel h200(find_device("h200"), {});
  Module module = compile("gpt2", Model::load("gpt2").forward({.batch = 8, .chunked_loss = false}),
                          {.precision = Dtype::bf16, .backend = Backend::cuda});
  const auto seconds = [&] {
    std::vector<double> all;
    for (const Op& op : module.program("micro_first").ops)
      if (op.def->matmul) all.push_back(h200.seconds(module, op));
    return all;
  };
  const std::vector<double> at_home = seconds();
  EXPECT_GT(at_home.size(), 100U);
  for (Value& value : module.values)
    if (value.category == Category::params || value.category == Category::grads)
      value.category = Category::staging;
  EXPECT_EQ(seconds(), at_home);
}

TEST(CostModel, HostOpUsesProcessorRates) {
  RoundTrip trip;
  const CostModel h200(find_device("h200"), {});
  const CostModel cpu = nominal_model(Backend::cpu);
  // While a GPU copies it has less of its memory's rate.
  EXPECT_GT(trip.seconds(h200)[1], trip.seconds(cpu)[1]);
  EXPECT_LT(trip.seconds(h200)[1], 1.5 * trip.seconds(cpu)[1]);
  Calibration measured{
      "NVIDIA H200", 0, "", "", 4e12, {{{"copy", Dtype::f32, false, 0, 0, 1e6, 0}, 1}}};
  measured.host_bytes_per_s = h200.surroundings().cpu.bytes_per_s / 1000;
  measured.link = Link{1e9, 2e9, 0.5e9};
  const CostModel slow(find_device("h200"), {}, measured);
  EXPECT_GT(trip.seconds(slow)[1], trip.seconds(h200)[1]);
  EXPECT_EQ(slow.surroundings().link, *measured.link);
}

TEST(CostModel, UnifiedMemoryTransferIsCopy) {
  RoundTrip trip;
  const CostModel cpu = nominal_model(Backend::cpu);
  EXPECT_EQ(trip.seconds(cpu)[0], trip.seconds(cpu)[2]);
  EXPECT_LT(trip.seconds(cpu)[0], 2e-6);
}

TEST(CostModel, DiskIsSlowerThanAnyLink) {
  RoundTrip disk, host;
  disk.f.module[disk.out].space = Space::disk;
  for (const CostModel& model : {CostModel(find_device("h200"), {}), nominal_model(Backend::cpu)})
    EXPECT_GT(disk.seconds(model)[0], host.seconds(model)[0]);
}

TEST(CostModel, DiskHasOwnReadAndWriteRates) {
  RoundTrip disk;
  disk.f.module[disk.out].space = Space::disk;
  disk.f.module[disk.changed].space = Space::disk;
  const auto at = [&](double read, double write) {
    Calibration measured{
        "NVIDIA H200", 0, "", "", 4e12, {{{"copy", Dtype::f32, false, 0, 0, 1e6, 0}, 1}}};
    measured.disk = DiskRates{read, write};
    return disk.seconds(CostModel(find_device("h200"), {}, measured));
  };
  const auto even = at(1e6, 1e6), slow_read = at(1e5, 1e6), slow_write = at(1e6, 1e5);
  EXPECT_GT(slow_write[0], 2 * even[0]);
  EXPECT_EQ(slow_read[0], even[0]);
  EXPECT_EQ(slow_write[2], even[2]);
  EXPECT_GT(slow_read[2], 2 * even[2]);
}

TEST(CostModel, NamesSourceOfTransferTimes) {
  RoundTrip trip;
  const CostModel h200(find_device("h200"), {});
  EXPECT_EQ(h200.origin_of_moves(tiny()), "");
  EXPECT_EQ(h200.origin_of_moves(trip.f.module),
            "link 55 GB/s in, 55 GB/s out, 49 GB/s each when both run, by the catalogue; host "
            "memory 80 GB/s, assumed");
  EXPECT_EQ(nominal_model(Backend::cpu).origin_of_moves(trip.f.module), "");
  trip.f.module[trip.out].space = Space::disk;
  EXPECT_EQ(nominal_model(Backend::cpu).origin_of_moves(trip.f.module),
            "disk 2 GB/s read, 2 GB/s written, assumed");
  Calibration measured{
      "NVIDIA H200", 0, "", "", 4e12, {{{"copy", Dtype::f32, false, 0, 0, 1e6, 0}, 1}}};
  measured.disk = DiskRates{6e9, 3e9};
  const CostModel fast(find_device("h200"), {}, measured);
  EXPECT_THAT(fast.origin_of_moves(trip.f.module),
              ::testing::HasSubstr("disk 6 GB/s read, 3 GB/s written, measured"));
}

TEST(ServedCost, IsAbsentWithoutServers) {
  const Module mlp =
      compile("mlp", Model::load("mlp:64x2").forward({.batch = 2}), {.backend = Backend::cuda});
  EXPECT_FALSE(served_cost(mlp, nominal_model(Backend::cuda)).has_value());
  EXPECT_FALSE(served_cost(tiny(), nominal_model(Backend::cpu)).has_value());
}

TEST(KernelBits, GroupedAttentionIsAnotherKernel) {
  const auto variants = [](const char* model) {
    std::set<std::string> kinds;
    const Module module = compile(model, Model::load(model).forward({.batch = 2, .seq = 512}),
                                  {.precision = Dtype::bf16, .backend = Backend::cuda});
    for (const Op& op : module.program("micro_first").ops) {
      const Cost cost = cost_of(module, op, Backend::cuda);
      if ((kernel_bits(module, op, Backend::cuda, cost, {}) & kVariant) != 0)
        kinds.emplace(op.def->kind);
    }
    return kinds;
  };
  EXPECT_EQ(variants("qwen2.5-0.5b"),
            (std::set<std::string>{"flash_attention", "flash_attention_grad"}));
  EXPECT_TRUE(variants("gpt2").empty());
}

}  // namespace
}  // namespace snug
