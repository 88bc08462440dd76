// Out-of-memory errors as PyTorch, launchers and the system word them.
#include "pytorch/oom_log.h"

#include "formats/testing.h"

namespace snug::pytorch {
namespace {

constexpr int64_t gib(double n) { return static_cast<int64_t>(n * (int64_t{1} << 30)); }

std::optional<OomLog> read(std::string_view text) {
  const snug::testing::TempDir dir;
  snug::testing::write_bytes(dir / "train.log", text);
  return read_oom_log(dir / "train.log");
}

constexpr std::string_view kNew =
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a "
    "total capacity of 23.50 GiB of which 1.25 GiB is free. Process 77 has 3.00 GiB memory in use. "
    "Including non-PyTorch memory, this process has 19.25 GiB memory in use. 20.00 GiB allowed; Of "
    "the allocated memory 17.50 GiB is allocated by PyTorch, with 1.00 GiB allocated in private "
    "pools (e.g., CUDA Graphs), and 1.50 GiB is reserved by PyTorch but unallocated. If reserved "
    "but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n";

TEST(OomLogs, PyTorch2) {
  const auto log = read(kNew);
  ASSERT_TRUE(log);
  EXPECT_EQ(log->kind, OomKind::pytorch);
  EXPECT_EQ(log->gpu, 3);
  EXPECT_EQ(log->asked, gib(2));
  EXPECT_EQ(log->total, gib(23.5));
  EXPECT_EQ(log->free, gib(1.25));
  EXPECT_EQ(log->process, gib(19.25));
  EXPECT_EQ(log->allowed, gib(20));
  EXPECT_EQ(log->allocated, gib(17.5));
  EXPECT_EQ(log->unused, gib(1.5));
}

TEST(OomLogs, PyTorch21CapacitySpelling) {
  const auto log = read(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a "
      "total capacty of 23.50 GiB of which 4.00 MiB is free.");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->total, gib(23.5));
  EXPECT_EQ(log->free, 4 << 20);
}

TEST(OomLogs, PyTorch1) {
  const auto log = read(
      "step 1\nRuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 0; 10.75 GiB "
      "total capacity; 8.50 GiB already allocated; 0 bytes free; 9.00 GiB reserved in total by "
      "PyTorch)\n");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->line, 2);
  EXPECT_EQ(log->total, gib(10.75));
  EXPECT_EQ(log->free, 0);
  EXPECT_EQ(log->allocated, gib(8.5));
  EXPECT_EQ(log->unused, gib(0.5));
  EXPECT_FALSE(log->process);
}

TEST(OomLogs, BoxedMessageIsReadAcrossLines) {
  const auto log = read(
      "│ OutOfMemoryError: CUDA out of memory. Tried to allocate │\n│ 2.00 GiB. GPU 0 has a total "
      "capacity of 23.50 GiB of │\n│ which 1.25 GiB is free.  │\n");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->asked, gib(2));
  EXPECT_EQ(log->free, gib(1.25));
}

std::string traceback(std::string_view inner) {
  return std::string(
             "Traceback (most recent call last):\n  File \"train.py\", line 61, in main\n") +
         std::string(inner) + std::string(kNew);
}

TEST(OomLogs, TracebackGivesPhase) {
  const auto forward = read(traceback(
      "  File \"/env/site-packages/transformers/models/llama/modeling_llama.py\", line 80, in "
      "forward\n  File \"/env/site-packages/torch/nn/modules/linear.py\", line 125, in forward\n"));
  EXPECT_EQ(forward->where.phase, Phase::forward);
  EXPECT_EQ(forward->where.label, "Linear, modeling_llama.py:80 forward");
  EXPECT_EQ(forward->frames.at(1), "train.py:61 main");
  const auto backward =
      read(traceback("  File \"/env/site-packages/torch/_tensor.py\", line 5, in backward\n"));
  EXPECT_EQ(backward->where.phase, Phase::backward);
  const auto update = read(
      traceback("  File \"/env/site-packages/accelerate/optimizer.py\", line 171, in step\n"
                "  File \"/env/site-packages/torch/optim/adamw.py\", line 9, in _init_group\n"));
  EXPECT_EQ(update->where.phase, Phase::optimizer);
  EXPECT_EQ(update->through, "Accelerate");
  const auto setup =
      read(traceback("  File \"/env/site-packages/torch/nn/modules/module.py\", line 9, in to\n"));
  EXPECT_EQ(setup->where.phase, Phase::setup);
  const auto deepspeed =
      read(traceback("  File \"/env/deepspeed/runtime/engine.py\", line 9, in step\n"
                     "  File \"/env/deepspeed/runtime/zero/stage_1_and_2.py\", line 7, in step\n"));
  EXPECT_EQ(deepspeed->where.phase, Phase::optimizer);
  EXPECT_EQ(deepspeed->through, "DeepSpeed");
}

TEST(OomLogs, OthersHaveOtherWords) {
  const std::pair<std::string_view, OomKind> all[] = {
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
       OomKind::cublas},
      {"NCCL WARN Cuda failure 2 'out of memory'", OomKind::nccl},
      {"ncclUnhandledCudaError: Call to CUDA function failed. Failed to CUDA calloc async 24 bytes",
       OomKind::nccl},
      {"RuntimeError: CUDA error: out of memory", OomKind::cuda},
      {"RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't "
       "allocate memory: you tried to allocate 8589934592 bytes. Error code 12",
       OomKind::host},
      {"[1.2] Out of memory: Killed process 42 (python3) total-vm:9kB, anon-rss:1048576kB, f",
       OomKind::killed},
      {"Memory cgroup out of memory: Killed process 42 (python3) total-vm:9kB, anon-rss:1048576kB",
       OomKind::cgroup},
      {"slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", OomKind::cgroup},
      {"container exited with exit code 137", OomKind::signal_nine},
      {"Killed", OomKind::signal_nine},
      {"exits with return code = -9", OomKind::signal_nine}};
  for (const auto& [text, kind] : all) {
    const auto log = read(text);
    ASSERT_TRUE(log) << text;
    EXPECT_EQ(log->kind, kind) << text;
    if (kind == OomKind::host) {
      EXPECT_EQ(log->asked, int64_t{8} << 30);
    }
    if (kind == OomKind::killed) {
      EXPECT_EQ(log->process, gib(1));
      EXPECT_EQ(log->victim, "python3");
    }
  }
}

TEST(OomLogs, MostInformativeMessageWins) {
  const auto log =
      read(std::string("Killed\n") + std::string(kNew) + std::string(kNew) + "Killed\n");
  ASSERT_TRUE(log);
  EXPECT_EQ(log->kind, OomKind::pytorch);
  EXPECT_EQ(log->line, 2);
  EXPECT_EQ(log->times, 2);
}

TEST(OomLogs, OtherTextsHoldNone) {
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read("loss 3.2\nloss 3.1\nValueError: shapes differ\n"));
  EXPECT_FALSE(read(std::string(100'000, 'x')));
}

}  // namespace
}  // namespace snug::pytorch
