// This process's membership in a job of several ranks: texts and small numbers to and from all of
// them, and an end for all when one fails.
//
//   std::optional<JobPlace> place = job_place();
//   std::unique_ptr<Job> job = Job::join(*place, {});
//   job->run([&] {                          // whatever it throws ends every rank, and one says why
//     job->require_alike("options", text);
//     ...                                   // job->progress(step, 0, "step 3") now and then
//   });
//
// When a rank dies, throws, is stopped or falls behind, rank 0 prints one message (the first rank
// that is left, when rank 0 died), every rank's on_end() is called, calls of the job throw, and a
// process that has not ended 3 s later is ended with exit code 5.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/current_error.h"
#include "base/error.h"
#include "comm/bootstrap.h"
#include "comm/job_watch.h"

namespace snug {

class Job final : public Bootstrap {
 public:
  // Waits for all ranks. Throws what rendezvous() does.
  static std::unique_ptr<Job> join(const JobPlace& given, const JobLimits& limits,
                                   const OpenBootstrap& over_mpi = {});
  ~Job() override;  // without leave() and fail(): as if the process had died
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }
  int local_rank() const { return place_.local_rank; }
  int local_ranks() const;  // on this host
  const JobPlace& place() const { return place_; }
  const std::string& host(int rank) const { return hosts_.at(static_cast<size_t>(rank)).host; }

  // Every rank's text, of at most 1 MiB.
  std::vector<std::string> exchange(std::string_view mine) override;
  // Throws the same usage error on all ranks where a rank's text, of any size, is not rank 0's: which
  // rank, and the first line that differs (or checksums, half a MiB into it).
  void require_alike(std::string_view what, std::string_view text);
  std::vector<int64_t> gather(int64_t mine);  // in the order of ranks
  int64_t sum(int64_t mine);
  // Throws a device error when not all ranks have come after `seconds`.
  void barrier(double seconds);

  // All ranks make the same positions, in the same order: the rank that stays at one while others go
  // on hangs. `doing` is for people: "step 12, backward".
  void progress(int64_t step, int64_t part, std::string_view doing);
  // Throws the job's failure, if it has failed: what was computed meanwhile means nothing.
  void throw_if_ended();
  // What makes this process leave calls that wait for other ranks; none before those are gone.
  void on_end(std::function<void(const std::string& why)> call);

  // The result of work(), when all ranks have done theirs. Whatever it throws ends the job: see fail().
  template <typename Work>
  auto run(const Work& work) {
    try {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        leave();
      } else {
        auto result = work();
        leave();
        return result;
      }
    } catch (...) {
      throw fail(current_error());
    }
  }

  // All ranks have done their work.
  void leave();
  // This rank has failed, by itself or because the job did. The error to go on with has the exit code
  // of the cause, and no sentence where a rank has printed it.
  Error fail(const Error& error);

 private:
  Job(JobPlace place, std::vector<RankHost> hosts, std::shared_ptr<JobWatch> watch);

  JobPlace place_;
  std::vector<RankHost> hosts_;
  std::shared_ptr<JobWatch> watch_;  // none in a job of one rank
  bool left_ = false;
};

}  // namespace snug
