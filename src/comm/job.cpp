#include "comm/job.h"

#include <algorithm>
#include <numeric>

#include "base/checksum.h"
#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

// A line in which `at` can be seen.
std::string shortened(const std::string& line, size_t at) {
  constexpr size_t kShown = 80;
  if (line.size() <= kShown) return printable(line);
  const size_t from = at < kShown / 2 ? 0 : at - kShown / 2;
  return fmt::format("{}{}{}", from > 0 ? "..." : "", printable(line.substr(from, kShown)),
                     from + kShown < line.size() ? "..." : "");
}

struct LinePair {
  std::string one, other;
};

// The first line of both that differs.
LinePair first_difference(std::string_view one, std::string_view other) {
  std::vector<std::string> a = split(one, '\n'), b = split(other, '\n');
  a.resize(std::max(a.size(), b.size()));
  b.resize(a.size());
  const auto [x, y] = std::ranges::mismatch(a, b);
  if (x == a.end()) return {};
  const auto at = static_cast<size_t>(std::ranges::mismatch(*x, *y).in1 - x->begin());
  return {shortened(*x, at), shortened(*y, at)};
}

}  // namespace

std::unique_ptr<Job> Job::join(const JobPlace& given, const JobLimits& limits,
                               const OpenBootstrap& over_mpi) {
  Joined joined = rendezvous(given, limits.join, over_mpi);
  std::vector<RankHost> hosts = joined.hosts;
  JobPlace place = given;
  if (place.local_rank < 0) {
    const auto mine = hosts.begin() + place.rank;
    place.local_rank = static_cast<int>(std::count_if(
        hosts.begin(), mine, [&](const RankHost& h) { return h.host == mine->host; }));
  }
  std::shared_ptr<JobWatch> watch;
  if (place.ranks > 1) {
    watch = std::make_shared<JobWatch>(place.rank, std::move(joined), limits);
    watch->start();
  }
  return std::unique_ptr<Job>(new Job(std::move(place), std::move(hosts), std::move(watch)));
}

int Job::local_ranks() const {
  return static_cast<int>(std::ranges::count(hosts_, host(rank()), &RankHost::host));
}

Job::Job(JobPlace place, std::vector<RankHost> hosts, std::shared_ptr<JobWatch> watch)
    : place_(std::move(place)), hosts_(std::move(hosts)), watch_(std::move(watch)) {}

Job::~Job() {
  if (!watch_) return;
  watch_->on_end({});
  if (!left_) watch_->abandon();
}

std::vector<std::string> Job::exchange(std::string_view mine) {
  if (!watch_) return {std::string(mine)};
  return watch_->exchange(mine, std::nullopt);
}

// Checksums first: long texts are sent only where they differ.
void Job::require_alike(std::string_view what, std::string_view text) {
  constexpr size_t kSent = 512 << 10;
  const std::vector<std::string> sums = exchange(checksum_text(text));
  const auto other = std::ranges::find_if(sums, [&](const auto& one) { return one != sums[0]; });
  if (other == sums.end()) return;
  const auto rank = static_cast<size_t>(other - sums.begin());
  const std::vector<std::string> all = exchange(text.substr(0, kSent));
  const LinePair lines =
      all[rank] == all[0] ? LinePair{sums[0], sums[rank]} : first_difference(all[0], all[rank]);
  throw usage_error("the ranks differ in their {}: rank {} on {} has '{}', rank 0 on {} has '{}'",
                    what, rank, host(static_cast<int>(rank)), lines.other, host(0), lines.one);
}

std::vector<int64_t> Job::gather(int64_t mine) {
  std::vector<int64_t> out;
  for (const std::string& text : exchange(fmt::format("{}", mine))) {
    if (!read_number(text, out.emplace_back()))
      throw internal_error("rank {} takes part in another exchange", out.size() - 1);
  }
  return out;
}

int64_t Job::sum(int64_t mine) {
  const std::vector<int64_t> all = gather(mine);
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

void Job::barrier(double seconds) {
  if (watch_) watch_->exchange("", tcp::after(seconds));
}

void Job::progress(int64_t step, int64_t part, std::string_view doing) {
  if (watch_) watch_->progress(step, part, doing);
}

void Job::throw_if_ended() {
  if (watch_) watch_->throw_if_ended();
}

void Job::on_end(std::function<void(const std::string&)> call) {
  if (watch_) watch_->on_end(std::move(call));
}

void Job::leave() {
  if (watch_) watch_->leave();
  left_ = true;
}

Error Job::fail(const Error& error) {
  if (!watch_) return error;
  const std::optional<ExitCode> said = watch_->report({error.code(), error.what(), error.hint()});
  return said ? Error(*said, "") : error;
}

}  // namespace snug
