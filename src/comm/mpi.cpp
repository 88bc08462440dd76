#include "comm/mpi.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "comm/mpi_calls.h"
#include "hal/library.h"

namespace snug {
namespace {

struct MpiLibrary {
  const MpiCalls* calls = nullptr;
  std::string why_not;
};

MpiLibrary open_mpi() {
  std::error_code error;
  const auto file =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "libsnug_mpi.so";
  if (!std::filesystem::exists(file, error))
    return {nullptr, "this build has no MPI: libsnug_mpi.so is not next to the program"};
  const Library library(file.string());
  if (!library) return {nullptr, "MPI cannot be opened: " + library.why_not()};
  const auto* calls = library.object<MpiCalls>(kMpiCallsSymbol);
  if (calls == nullptr || calls->version != kMpiCallsVersion)
    return {nullptr, "libsnug_mpi.so is of another build than this program"};
  return {calls, ""};
}

const MpiLibrary& mpi_library() {
  static const MpiLibrary library = open_mpi();
  return library;
}

// MPI of this process, from its start to its end.
class MpiProcess {
 public:
  static MpiProcess& get() {
    static MpiProcess process;
    return process;
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // call(calls): one call of MPI; alone where MPI wants that.
  template <typename Call>
  void call(std::string_view group, std::string_view what, const Call& call) {
    int error = 0;
    {
      std::unique_lock lock(mutex_, std::defer_lock);
      if (serialized_) lock.lock();
      error = call(*calls_);
    }
    if (error == 0) return;
    std::array<char, kMpiWords> text{};
    calls_->words(error, text.data());
    throw device_error("{}: MPI failed in {}: {}", group, what, text.data());
  }

  void take_turns() { serialized_ = true; }
  // MPI is then not ended with the process, which would wait for ranks that no longer come.
  void failed() { failed_ = true; }

 private:
  MpiProcess() : calls_(mpi_library().calls) {
    if (calls_ == nullptr) throw device_error("{}", mpi_library().why_not);
    int serialized = 0;
    call("all ranks", "its start",
         [&](const MpiCalls& mpi) { return mpi.init(&serialized, &rank_, &ranks_); });
    serialized_ = serialized != 0;
  }
  ~MpiProcess() {
    if (!failed_) calls_->finalize();
  }

  const MpiCalls* calls_;
  int rank_ = 0, ranks_ = 1;
  std::atomic<bool> serialized_ = false;
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
};

class MpiEnd final : public Communicator {
 public:
  // `members`: which of all ranks they are.
  MpiEnd(const std::vector<int>& members, int rank, std::string_view name,
         const MpiSettings& settings)
      : mpi_(MpiProcess::get()),
        rank_(rank),
        ranks_(static_cast<int>(members.size())),
        name_(name),
        most_(std::clamp<int64_t>(settings.most_bytes, 1, INT32_MAX)) {
    mpi_.call(name_, "making a group",
              [&](const MpiCalls& mpi) { return mpi.make_group(members.data(), ranks_, &group_); });
  }

  ~MpiEnd() override {
    if (!failure_.empty()) return;
    try {
      mpi_.call(name_, "freeing a group",
                [&](const MpiCalls& mpi) { return mpi.free_group(&group_); });
    } catch (const Error&) {
      mpi_.failed();
    }
  }

  std::string_view engine() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  void all_gather(std::span<const std::byte> mine, std::byte* all, void*) override {
    const auto bytes = static_cast<int64_t>(mine.size());
    const bool in_place = mine.data() == all + rank_ * bytes;
    in_pieces("all_gather", bytes, [&](const MpiCalls& mpi, int64_t at, int count, MpiHandle* r) {
      return mpi.all_gather(group_, mine.data() + at, all + at, {count, bytes}, in_place, r);
    });
  }

  void all_to_all(const std::byte* from, std::byte* to, int64_t block, void*) override {
    in_pieces("all_to_all", block, [&](const MpiCalls& mpi, int64_t at, int count, MpiHandle* r) {
      return mpi.all_to_all(group_, from + at, to + at, {count, block}, r);
    });
  }

  void broadcast(std::span<std::byte> bytes, int root, void*) override {
    in_pieces("broadcast", std::ssize(bytes),
              [&](const MpiCalls& mpi, int64_t at, int count, MpiHandle* r) {
                return mpi.broadcast(group_, bytes.data() + at, count, root, r);
              });
  }

  void send(std::span<const std::byte> bytes, int to, void*) override {
    in_pieces("send", std::ssize(bytes),
              [&](const MpiCalls& mpi, int64_t at, int count, MpiHandle* r) {
                return mpi.send(group_, bytes.data() + at, count, to, kMpiData, r);
              });
  }
  void receive(std::span<std::byte> bytes, int from, void*) override {
    in_pieces("receive", std::ssize(bytes),
              [&](const MpiCalls& mpi, int64_t at, int count, MpiHandle* r) {
                return mpi.receive(group_, bytes.data() + at, count, from, r);
              });
  }

  void barrier() override {
    start("barrier", [&](const MpiCalls& mpi, MpiHandle* r) { return mpi.barrier(group_, r); });
    wait_unless_grouped();
  }

  void begin_group() override { grouped_ = true; }
  void end_group() override {
    grouped_ = false;
    wait();
  }

  void abort(std::string_view why) override {
    if (told_.exchange(true)) return;
    fail(why);
    words_ = why.substr(0, kMpiWords - 1);
    for (int r = 0; r < ranks_; ++r) {
      if (r == rank_) continue;
      MpiHandle request;
      mpi_.call(name_, "telling of a failure", [&](const MpiCalls& mpi) {
        return mpi.send(group_, words_.data(), static_cast<int>(words_.size()), r, kMpiFailure,
                        &request);
      });
    }
  }

 private:
  struct Request {
    MpiHandle handle;
    std::string_view call;
  };

  // begin(mpi, offset, bytes, request) for pieces that MPI can count.
  template <typename Begin>
  void in_pieces(std::string_view call, int64_t bytes, const Begin& begin) {
    for (int64_t at = 0; at < bytes; at += most_) {
      const auto count = static_cast<int>(std::min(most_, bytes - at));
      start(call, [&](const MpiCalls& mpi, MpiHandle* request) {
        return begin(mpi, at, count, request);
      });
    }
    wait_unless_grouped();
  }

  template <typename Begin>
  void start(std::string_view call, const Begin& begin) {
    look_for_failures();
    Request request{{}, call};
    try {
      mpi_.call(name_, call, [&](const MpiCalls& mpi) { return begin(mpi, &request.handle); });
    } catch (const Error& error) {
      fail(error.what());
      throw;
    }
    requests_.push_back(request);
  }

  void wait_unless_grouped() {
    if (!grouped_) wait();
  }

  void wait() {
    const std::vector<Request> requests = std::exchange(requests_, {});
    try {
      look_for_failures();
      for (Request request : requests) wait_for(request);
    } catch (const Error& error) {
      fail(error.what());
      throw;
    }
  }

  // Short calls are polled at once; long ones leave the core to others. They sleep: a thread that
  // yields to one that computes has the core back when that one's slice ends, milliseconds later,
  // and a message may take many polls; a thread that wakes has it at once.
  void wait_for(Request& request) {
    using std::chrono::microseconds;
    constexpr int kAtOnce = 100;
    constexpr microseconds kShortest{10}, kLongest{100};
    wake_in_time();
    microseconds nap = kShortest;
    for (int64_t asked = 1;; ++asked) {
      int done = 0;
      mpi_.call(name_, request.call,
                [&](const MpiCalls& mpi) { return mpi.test(&request.handle, &done); });
      if (done != 0) return;
      if (asked % 64 == 0) look_for_failures();
      if (asked > kAtOnce) {
        std::this_thread::sleep_for(nap);
        nap = std::min(nap + nap / 4, kLongest);
      }
    }
  }

  // Linux lets a thread sleep 50 us longer than it asked for.
  static void wake_in_time() {
    static thread_local const int asked = ::prctl(PR_SET_TIMERSLACK, 1000UL);
    static_cast<void>(asked);
  }

  // Of this rank, or of one that has told so.
  void look_for_failures() {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_.empty()) throw device_error("{}", failure_);
    }
    std::array<char, kMpiWords> text{};
    int bytes = 0;
    mpi_.call(name_, "looking for failures",
              [&](const MpiCalls& mpi) { return mpi.take_failure(group_, text.data(), &bytes); });
    if (bytes == 0) return;
    fail({text.data(), static_cast<size_t>(bytes)});
    throw device_error("{}", failure_);
  }

  void fail(std::string_view why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why.empty() ? "a rank has failed" : why;
    mpi_.failed();
  }

  MpiProcess& mpi_;
  int rank_, ranks_;
  std::string name_;
  int64_t most_;
  MpiHandle group_;
  bool grouped_ = false;
  std::vector<Request> requests_;
  std::mutex mutex_;  // of failure_: abort comes from any thread
  std::string failure_;
  std::atomic<bool> told_ = false;
  std::string words_;  // kept while they are sent
};

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap() : all_(numbered(MpiProcess::get().ranks()), MpiProcess::get().rank(), "all", {}) {}
  int rank() const override { return all_.rank(); }
  int ranks() const override { return all_.ranks(); }
  std::vector<std::string> exchange(std::string_view mine) override {
    return GroupBootstrap(all_).exchange(mine);
  }

 private:
  static std::vector<int> numbered(int ranks) {
    std::vector<int> out(static_cast<size_t>(ranks));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  MpiEnd all_;
};

}  // namespace

MpiProbe probe_mpi() {
  const MpiLibrary& library = mpi_library();
  if (library.calls == nullptr) return {"", library.why_not};
  std::array<char, kMpiWords> text{};
  library.calls->library(text.data());
  const std::string_view all = text.data();
  return {std::string(all.substr(0, all.find_first_of(",\n"))), ""};
}

std::unique_ptr<Bootstrap> mpi_bootstrap() { return std::make_unique<MpiBootstrap>(); }

std::unique_ptr<Communicator> mpi_group(Bootstrap& bootstrap, std::string_view name,
                                        const MpiSettings& settings) {
  MpiProcess& mpi = MpiProcess::get();
  if (settings.one_at_a_time) mpi.take_turns();
  std::vector<int> members;
  for (const std::string& text : bootstrap.exchange(fmt::to_string(mpi.rank()))) {
    int rank = -1;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    if (rank < 0 || rank >= mpi.ranks() || std::ranges::find(members, rank) != members.end()) {
      throw usage_error("{}: {} ranks are no group of the {} that MPI has", name, bootstrap.ranks(),
                        mpi.ranks())
          .hint("start all ranks with one mpirun, of the MPI that this build found");
    }
    members.push_back(rank);
  }
  return std::make_unique<MpiEnd>(members, bootstrap.rank(), name, settings);
}

}  // namespace snug
