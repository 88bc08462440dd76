#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "comm/nccl.h"
#include "hal/cuda/cuda_error.h"
#include "hal/cuda/pinned_arena.h"
#include "hal/cuda/probe.h"
#include "hal/library.h"

namespace snug {
namespace {

// What is used of nccl.h, as NCCL 2.18 and later have it.
constexpr int kOldestNccl = 21800;
constexpr int kNcclSuccess = 0, kNcclInProgress = 7;
constexpr int kNcclUint8 = 1, kNcclSum = 0;
struct NcclId {
  std::array<char, 128> bytes{};
};
using NcclComm = struct NcclCommOfTheLibrary*;

int nccl_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::i8:
      return 0;
    case Dtype::u8:
      return kNcclUint8;
    case Dtype::i32:
      return 2;
    case Dtype::i64:
      return 4;
    case Dtype::f16:
      return 6;
    case Dtype::f32:
      return 7;
    case Dtype::f64:
      return 8;
    case Dtype::bf16:
      return 9;
  }
  throw internal_error("NCCL has no type for {}", name_of(dtype));
}

struct NcclCalls {
  int (*version)(int*) = nullptr;
  int (*unique_id)(NcclId*) = nullptr;
  int (*init)(NcclComm*, int ranks, NcclId, int rank) = nullptr;
  int (*finalize)(NcclComm) = nullptr;
  int (*destroy)(NcclComm) = nullptr;
  int (*abort)(NcclComm) = nullptr;
  int (*async_error)(NcclComm, int*) = nullptr;
  const char* (*error_words)(int) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_gather)(const void*, void*, size_t, int type, NcclComm, cudaStream_t) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, NcclComm,
                   cudaStream_t) = nullptr;
  int (*send)(const void*, size_t, int type, int to, NcclComm, cudaStream_t) = nullptr;
  int (*receive)(void*, size_t, int type, int from, NcclComm, cudaStream_t) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int type, int op, NcclComm,
                        cudaStream_t) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int op, NcclComm, cudaStream_t) = nullptr;
};

struct NcclLibrary {
  NcclCalls calls;
  std::string why_not;
};

NcclLibrary open_nccl() {
  NcclLibrary out;
  if (out.why_not = why_no_cuda(); !out.why_not.empty()) return out;
  const Library library("libnccl.so.2");
  if (!library) {
    out.why_not = "NCCL cannot be opened: " + library.why_not();
    return out;
  }
  const auto find = [&]<typename... Args, typename Result>(Result (*&call)(Args...),
                                                           const char* name) {
    call = library.function<Result(Args...)>(name);
    if (call == nullptr) out.why_not = fmt::format("{} has no {}", library.file(), name);
  };
  NcclCalls& calls = out.calls;
  find(calls.version, "ncclGetVersion");
  find(calls.unique_id, "ncclGetUniqueId");
  find(calls.init, "ncclCommInitRank");
  find(calls.finalize, "ncclCommFinalize");
  find(calls.destroy, "ncclCommDestroy");
  find(calls.abort, "ncclCommAbort");
  find(calls.async_error, "ncclCommGetAsyncError");
  find(calls.error_words, "ncclGetErrorString");
  find(calls.last_error, "ncclGetLastError");
  find(calls.group_start, "ncclGroupStart");
  find(calls.group_end, "ncclGroupEnd");
  find(calls.all_gather, "ncclAllGather");
  find(calls.broadcast, "ncclBroadcast");
  find(calls.send, "ncclSend");
  find(calls.receive, "ncclRecv");
  find(calls.reduce_scatter, "ncclReduceScatter");
  find(calls.all_reduce, "ncclAllReduce");
  int version = 0;
  if (out.why_not.empty() && (calls.version(&version) != kNcclSuccess || version < kOldestNccl))
    out.why_not = fmt::format("NCCL {}.{} is too old: 2.18 or newer is needed", version / 10000,
                              version / 100 % 100);
  return out;
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_nccl();
  return library;
}

class NcclEnd final : public Communicator {
 public:
  NcclEnd(Bootstrap& bootstrap, std::string_view name)
      : rank_(bootstrap.rank()),
        ranks_(bootstrap.ranks()),
        name_(name),
        nccl_(nccl_library().calls),
        signal_(cuda::pinned_arena(ranks_)) {
    NcclId id;
    std::string mine;
    if (rank_ == 0) {
      check("making its id", nccl_.unique_id(&id));
      mine.assign(id.bytes.begin(), id.bytes.end());
    }
    const std::string first = bootstrap.exchange(mine).at(0);
    if (first.size() != id.bytes.size())
      throw device_error("{}: rank 0 tells {} bytes as NCCL's id", name_, first.size());
    std::ranges::copy(first, id.bytes.begin());
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    check("connecting", nccl_.init(&comm_, ranks_, id, rank_));
    barrier();  // NCCL connects when the first call needs it: the ring now, before anything is at stake
  }

  ~NcclEnd() override {
    if (comm_ != nullptr && !ended_.exchange(true)) {
      nccl_.finalize(comm_);
      nccl_.destroy(comm_);
    }
    cudaStreamDestroy(stream_);
  }

  std::string_view engine() const override { return "nccl"; }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  bool enqueues() const override { return true; }

  void all_gather(std::span<const std::byte> mine, std::byte* all, void* stream) override {
    enqueue("all_gather", [&] {
      return nccl_.all_gather(mine.data(), all, mine.size(), kNcclUint8, comm_, of(stream));
    });
  }

  void all_to_all(const std::byte* from, std::byte* to, int64_t block, void* stream) override {
    const auto bytes = static_cast<size_t>(block);
    enqueue("all_to_all", [&] {
      int error = nccl_.group_start();
      for (int r = 0; r < ranks_ && error == kNcclSuccess; ++r) {
        error = nccl_.send(from + r * block, bytes, kNcclUint8, r, comm_, of(stream));
        if (error == kNcclSuccess)
          error = nccl_.receive(to + r * block, bytes, kNcclUint8, r, comm_, of(stream));
      }
      const int ended = nccl_.group_end();
      return error != kNcclSuccess ? error : ended;
    });
  }

  void broadcast(std::span<std::byte> bytes, int root, void* stream) override {
    enqueue("broadcast", [&] {
      return nccl_.broadcast(bytes.data(), bytes.data(), bytes.size(), kNcclUint8, root, comm_,
                             of(stream));
    });
  }

  void send(std::span<const std::byte> bytes, int to, void* stream) override {
    enqueue("send", [&] {
      return nccl_.send(bytes.data(), bytes.size(), kNcclUint8, to, comm_, of(stream));
    });
  }
  void receive(std::span<std::byte> bytes, int from, void* stream) override {
    enqueue("receive", [&] {
      return nccl_.receive(bytes.data(), bytes.size(), kNcclUint8, from, comm_, of(stream));
    });
  }

  void reduce_scatter(const std::byte* all, std::byte* mine, Dtype dtype, int64_t elements,
                      void* stream) override {
    enqueue("reduce_scatter", [&] {
      return nccl_.reduce_scatter(all, mine, static_cast<size_t>(elements), nccl_type(dtype),
                                  kNcclSum, comm_, of(stream));
    });
  }
  void all_reduce(const std::byte* from, std::byte* to, Dtype dtype, int64_t elements,
                  void* stream) override {
    enqueue("all_reduce", [&] {
      return nccl_.all_reduce(from, to, static_cast<size_t>(elements), nccl_type(dtype), kNcclSum,
                              comm_, of(stream));
    });
  }

  // A byte of each rank to all of them, and a wait for it that a failure ends.
  void barrier() override {
    all_gather({signal_->data() + rank_, 1}, signal_->data(), stream_);
    wait_for_stream();
  }

  // A byte for each. NCCL would connect inside the call that enqueues the first message, and its host
  // thread would wait there for the other's: two stages whose first calls cross would wait for ever.
  void connect(std::span<const int> to, std::span<const int> from) override {
    begin_group();
    for (const int rank : to) send({signal_->data() + rank_, 1}, rank, stream_);
    for (const int rank : from) receive({signal_->data() + rank, 1}, rank, stream_);
    end_group();
    wait_for_stream();
  }

  void begin_group() override { check("a group of calls", nccl_.group_start()); }
  void end_group() override {
    enqueue("a group of calls", [&] { return nccl_.group_end(); });
  }

  // Also ends kernels that wait on the device. It waits a moment for a call that is being enqueued;
  // one that waits inside NCCL for a rank that is gone is ended by it.
  void abort(std::string_view why) override {
    fail(why);
    const std::unique_lock lock(enqueuing_, std::chrono::seconds(1));
    if (comm_ != nullptr && !ended_.exchange(true)) nccl_.abort(comm_);
  }

 private:
  static cudaStream_t of(void* stream) { return static_cast<cudaStream_t>(stream); }

  void wait_for_stream() {
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady) {
      look_for_failures();
      state = cudaStreamQuery(stream_);
      if (state == cudaErrorNotReady) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    cuda::check(state, "waiting for all ranks of {}", name_);
    look_for_failures();
  }

  template <typename Call>
  void enqueue(std::string_view what, const Call& call) {
    look_for_failures();
    const std::lock_guard lock(enqueuing_);
    check(what, ended_ ? kNcclSuccess : call());
  }

  void check(std::string_view what, int error) {
    if (error == kNcclSuccess || error == kNcclInProgress) return;
    const std::string words = nccl_.last_error(comm_);
    fail(fmt::format("{}: NCCL failed in {}: {}{}{}", name_, what, nccl_.error_words(error),
                     words.empty() ? "" : ": ", words));
    throw_failure();
  }

  // Of this rank; or one that NCCL has met since then, such as a connection that ended.
  void look_for_failures() {
    throw_failure();
    int error = kNcclSuccess;
    const std::lock_guard lock(enqueuing_);
    if (!ended_ && nccl_.async_error(comm_, &error) == kNcclSuccess)
      check("what it had been given", error);
  }

  void fail(std::string_view why) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = why.empty() ? "a rank has failed" : why;
  }
  void throw_failure() {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw device_error("{}", failure_);
  }

  int rank_, ranks_;
  std::string name_;
  const NcclCalls& nccl_;
  std::unique_ptr<Memory> signal_;  // a byte for each rank
  cudaStream_t stream_ = nullptr;   // of barriers
  NcclComm comm_ = nullptr;
  std::timed_mutex enqueuing_;
  std::atomic<bool> ended_ = false;  // comm_ is no more
  std::mutex mutex_;                 // of failure_: abort comes from any thread
  std::string failure_;
};

}  // namespace

std::string why_no_nccl() { return nccl_library().why_not; }

std::unique_ptr<Communicator> nccl_group(Bootstrap& bootstrap, std::string_view name) {
  if (const std::string& why = nccl_library().why_not; !why.empty())
    throw device_error("{}: {}", name, why);
  return std::make_unique<NcclEnd>(bootstrap, name);
}

}  // namespace snug
