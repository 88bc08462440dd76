// NCCL between processes that share the one GPU: the program starts itself once for each rank, with
// NCCL told that each is on a host of its own.
#include "comm/nccl.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "comm/testing/every_call.h"
#include "gpu_ranks/staged_group.h"
#include "hal/cuda/cuda_error.h"
#include "hal/testing/needs_cuda.h"

namespace snug {
namespace {

// Ranks tell each other by files in a folder.
class FileBootstrap final : public Bootstrap {
 public:
  FileBootstrap(std::filesystem::path folder, int rank, int ranks)
      : folder_(std::move(folder)), rank_(rank), ranks_(ranks) {}
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::vector<std::string> exchange(std::string_view mine) override {
    ++calls_;
    const auto unfinished = folder_ / fmt::format("writing-{}", rank_);
    std::ofstream(unfinished) << mine;
    std::filesystem::rename(unfinished, file_of(rank_));
    std::vector<std::string> out;
    for (int r = 0; r < ranks_; ++r) {
      for (int i = 0; i < 6000 && !std::filesystem::exists(file_of(r)); ++i) poll(nullptr, 0, 10);
      std::ostringstream text;
      if (std::ifstream in(file_of(r)); in.peek() != EOF) text << in.rdbuf();
      out.push_back(text.str());
    }
    return out;
  }

 private:
  std::filesystem::path file_of(int rank) const {
    return folder_ / fmt::format("{}-{}", calls_, rank);
  }
  std::filesystem::path folder_;
  int rank_, ranks_, calls_ = 0;
};

FileBootstrap as_told_by_the_environment() {
  const auto number = [](const char* name) { return std::atoi(std::getenv(name)); };
  return {std::getenv("SNUG_TEST_FOLDER"), number("SNUG_TEST_RANK"), number("SNUG_TEST_RANKS")};
}

// Starts this program's disabled test of that name as each of the ranks, and waits for them.
void run_ranks(int ranks, const std::string& test) {
  SNUG_NEEDS_CUDA;
  ASSERT_EQ(why_no_nccl(), "");
  auto folder = (std::filesystem::temp_directory_path() / "snug-ranks-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::vector<int> codes(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      codes[static_cast<size_t>(r)] = std::system(
          fmt::format("SNUG_TEST_FOLDER={0} SNUG_TEST_RANK={1} SNUG_TEST_RANKS={2} "
                      "NCCL_HOSTID=snug-{1} NCCL_SOCKET_IFNAME=lo NCCL_P2P_DISABLE=1 "
                      "NCCL_SHM_DISABLE=1 timeout 100 {3} --gtest_also_run_disabled_tests "
                      "--gtest_filter=CudaNccl.DISABLED_{4} > {0}/out-{1} 2>&1",
                      folder, r, ranks, std::filesystem::read_symlink("/proc/self/exe").string(),
                      test)
              .c_str());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < ranks; ++r) {
    std::ostringstream text;
    text << std::ifstream(fmt::format("{}/out-{}", folder, r)).rdbuf();
    EXPECT_EQ(codes[static_cast<size_t>(r)], 0) << "rank " << r << ":\n" << text.str();
    std::string line;
    std::istringstream lines(text.str());
    while (std::getline(lines, line))
      if (line.starts_with("measured")) std::cout << "rank " << r << " " << line << "\n";
  }
  std::filesystem::remove_all(folder);
}

TEST(CudaNccl, TwoRanks) { run_ranks(2, "EveryCall"); }
TEST(CudaNccl, FourRanks) { run_ranks(4, "EveryCall"); }
TEST(CudaNccl, RecordedCalls) { run_ranks(2, "Recorded"); }
TEST(CudaNccl, AbortEndsWaitingCall) { run_ranks(2, "Abort"); }
TEST(CudaNccl, TwoGroupsRecorded) { run_ranks(2, "TwoGroupsRecorded"); }
TEST(CudaNccl, FirstMessagesMayCross) { run_ranks(2, "Crossing"); }
TEST(CudaNccl, TwoRanksTakeNoMoreMemoryThanPlanned) { run_ranks(2, "Memory"); }
TEST(CudaNccl, FourRanksTakeNoMoreMemoryThanPlanned) { run_ranks(4, "Memory"); }

TEST(CudaNccl, DISABLED_EveryCall) {
  FileBootstrap all = as_told_by_the_environment();
  const auto group = nccl_group(all, "test");
  StagedGroup staged(*group, int64_t{16} << 20);
  for (const int64_t block : {1, 7, 4096, 2'000'003}) check_every_call(staged, block);

  std::vector<float> mine(4 * static_cast<size_t>(all.ranks()));
  std::iota(mine.begin(), mine.end(), static_cast<float>(all.rank()));
  const size_t bytes = mine.size() * sizeof(float);
  const DeviceBytes in(bytes), out(bytes);
  ASSERT_EQ(cudaMemcpy(in.get(), mine.data(), bytes, cudaMemcpyHostToDevice), cudaSuccess);
  const int n = all.ranks();
  const int of_ranks = n * (n - 1) / 2;
  const auto sum_at = [&](int i) { return static_cast<float>(n * i + of_ranks); };
  group->all_reduce(in.get(), out.get(), Dtype::f32, std::ssize(mine), nullptr);
  std::vector<float> got(mine.size());
  ASSERT_EQ(cudaMemcpy(got.data(), out.get(), bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i < std::ssize(got); ++i) EXPECT_EQ(got[static_cast<size_t>(i)], sum_at(i));
  group->reduce_scatter(in.get(), out.get(), Dtype::f32, 4, nullptr);
  ASSERT_EQ(cudaMemcpy(got.data(), out.get(), 16, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], sum_at(4 * all.rank() + i));
}

// Each sends on a lane of its own before it receives on the other's, as stages of a pipeline do.
TEST(CudaNccl, DISABLED_Crossing) {
  FileBootstrap all = as_told_by_the_environment();
  const int rank = all.rank(), other = 1 - rank;
  std::array<std::unique_ptr<Communicator>, 2> from;  // by sender
  for (auto& group : from) group = nccl_group(all, "test");
  for (int sender = 0; sender < 2; ++sender) {
    const std::vector<int> peer{other}, none;
    from[static_cast<size_t>(sender)]->connect(sender == rank ? peer : none,
                                               sender == rank ? none : peer);
  }
  const size_t bytes = 8 << 20;  // more than is on the way
  const DeviceBytes out(bytes), in(bytes);
  ASSERT_EQ(cudaMemset(out.get(), rank + 1, bytes), cudaSuccess);
  std::array<cudaStream_t, 2> streams{};
  for (cudaStream_t& stream : streams)
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  from[static_cast<size_t>(rank)]->send({out.get(), bytes}, other, streams[0]);
  from[static_cast<size_t>(other)]->receive({in.get(), bytes}, other, streams[1]);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<char> got(bytes);
  ASSERT_EQ(cudaMemcpy(got.data(), in.get(), bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_THAT(got, ::testing::Each(static_cast<char>(other + 1)));
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

// A graph of two calls, launched twice with other inputs.
TEST(CudaNccl, DISABLED_Recorded) {
  FileBootstrap all = as_told_by_the_environment();
  const auto group = nccl_group(all, "test");
  const auto n = static_cast<size_t>(all.ranks());
  const size_t block = 1 << 20;
  const DeviceBytes in(block), gathered(n * block), out(n * block);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  group->all_gather({in.get(), block}, gathered.get(), stream);
  group->all_to_all(gathered.get(), out.get(), static_cast<int64_t>(block), stream);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  // Every rank gathers the same; so what comes back is this rank's own block from each.
  for (int launch = 0; launch < 2; ++launch) {
    const int value = 10 * launch + all.rank() + 1;
    ASSERT_EQ(cudaMemsetAsync(in.get(), value, block, stream), cudaSuccess);
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    std::vector<std::byte> got(n * block);
    ASSERT_EQ(cudaMemcpyAsync(got.data(), out.get(), got.size(), cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_THAT(got, ::testing::Each(static_cast<std::byte>(value)));
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  group->barrier();
}

TEST(CudaNccl, DISABLED_Abort) {
  FileBootstrap all = as_told_by_the_environment();
  auto group = nccl_group(all, "test");
  group->barrier();
  if (all.rank() == 1) {  // it never comes to the second barrier
    all.exchange("");
    return group->abort("it is over");
  }
  std::string said;
  std::thread waits([&] {
    try {
      group->barrier();
    } catch (const Error& error) {
      said = error.what();
    }
  });
  poll(nullptr, 0, 300);
  group->abort("rank 1: out of luck");
  waits.join();
  EXPECT_EQ(said, "rank 1: out of luck");
  EXPECT_THROW(group->barrier(), Error) << "and later ones";
  all.exchange("");
}

// A graph with calls of two groups side by side, as a step has them, uploaded as a device does; ranks
// launch it at different times.
TEST(CudaNccl, DISABLED_TwoGroupsRecorded) {
  FileBootstrap all = as_told_by_the_environment();
  const auto one = nccl_group(all, "one"), two = nccl_group(all, "two");
  const auto n = static_cast<size_t>(all.ranks());
  const size_t block = 1 << 20;
  const DeviceBytes in(block), gathered(n * block), parts(n * block), out(n * block);
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t fork = nullptr, join = nullptr;
  for (cudaStream_t* stream : {&first, &second})
    ASSERT_EQ(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), cudaSuccess);
  for (cudaEvent_t* event : {&fork, &join})
    ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaMemset(parts.get(), 100 + all.rank(), n * block), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, fork, 0), cudaSuccess);
  for (int i = 0; i < 6; ++i) {
    one->all_gather({in.get(), block}, gathered.get(), first);
    two->all_to_all(parts.get(), out.get(), static_cast<int64_t>(block), second);
  }
  ASSERT_EQ(cudaEventRecord(join, second), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(first, join, 0), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(first, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  ASSERT_EQ(cudaGraphUpload(exec, first), cudaSuccess);
  for (int launch = 0; launch < 5; ++launch) {
    ASSERT_EQ(cudaMemsetAsync(in.get(), 10 * launch + all.rank() + 1, block, first), cudaSuccess);
    poll(nullptr, 0, all.rank() * 20);
    ASSERT_EQ(cudaGraphLaunch(exec, first), cudaSuccess);
    std::vector<std::byte> got(n * block), exchanged(n * block);
    for (const auto& [to, from] : {std::pair(&got, &gathered), std::pair(&exchanged, &out)})
      ASSERT_EQ(cudaMemcpyAsync(to->data(), from->get(), to->size(), cudaMemcpyDeviceToHost, first),
                cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(first), cudaSuccess);
    for (size_t r = 0; r < n; ++r) {
      EXPECT_EQ(got[r * block + 7], static_cast<std::byte>(10 * launch + static_cast<int>(r) + 1));
      EXPECT_EQ(exchanged[r * block + 7], static_cast<std::byte>(100 + static_cast<int>(r)));
    }
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  one->barrier();
}

// Of each of three groups, made and connected; then after calls of every size.
TEST(CudaNccl, DISABLED_Memory) {
  FileBootstrap all = as_told_by_the_environment();
  const auto taken = [&] {
    cudaDeviceSynchronize();
    all.exchange("");
    size_t free = 0, total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "asking for memory");
    all.exchange("");
    return static_cast<int64_t>(total - free) / all.ranks();
  };
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  const int64_t most = 64 << 20;
  const DeviceBytes in(most), out(most);
  int64_t before = taken();
  std::vector<std::unique_ptr<Communicator>> groups;
  for (int i = 0; i < 3; ++i) {
    Communicator* group = groups.emplace_back(nccl_group(all, "test")).get();
    const int64_t made = taken();
    for (int64_t block = 1; block <= most / all.ranks(); block *= 8)
      group->all_gather({in.get(), static_cast<size_t>(block)}, out.get(), nullptr);
    const int64_t gathered = taken();
    for (int64_t block = 1; block <= most / all.ranks(); block *= 8)
      group->all_to_all(in.get(), out.get(), block, nullptr);
    const int64_t exchanged = taken();
    for (int64_t n = 1; n <= most / 4 / all.ranks(); n *= 8) {
      group->reduce_scatter(in.get(), out.get(), Dtype::f32, n, nullptr);
      group->all_reduce(in.get(), out.get(), Dtype::f32, n, nullptr);
    }
    const int64_t summed = taken();
    group->barrier();
    std::cout << fmt::format(
                     "measured: {} ranks, group {}, in MiB: made {:.1f}, after gathers {:.1f}, "
                     "after exchanges {:.1f}, after sums {:.1f}",
                     all.ranks(), i, mib(made - before), mib(gathered - before),
                     mib(exchanged - before), mib(summed - before))
              << std::endl;
    EXPECT_LE(summed - before, (i == 0 ? kNcclBytes : 0) + kNcclGroupBytes);
    before = summed;
  }
}

}  // namespace
}  // namespace snug
