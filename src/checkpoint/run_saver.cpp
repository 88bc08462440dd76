#include "checkpoint/run_saver.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <random>
#include <system_error>
#include <utility>

#include "base/current_error.h"
#include "base/error.h"
#include "base/notes.h"
#include "base/number.h"
#include "base/staged_file.h"
#include "base/units.h"
#include "checkpoint/model_directory.h"
#include "checkpoint/run_directory.h"
#include "checkpoint/run_state.h"
#include "checkpoint/transfer_progress.h"
#include "comm/bootstrap.h"
#include "runtime/initialise.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSavingGroup = "checkpoints";

void write_text(const fs::path& path, std::string_view text) {
  StagedFile file(path);
  file.write(text);
  file.commit();
}

// So that they name the same files from any working directory.
Options with_absolute_paths(Options o) {
  for (std::string* path : {&o.model, &o.data, &o.eval_data, &o.offload_dir, &o.adapter}) {
    std::error_code failure;
    if (!path->empty() && fs::exists(*path, failure)) *path = fs::absolute(*path, failure).string();
  }
  return o;
}

}  // namespace

std::string new_run_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

RunSaver::RunSaver(const PlannedRun& planned, Executor& executor, RunManifest begun,
                   const TrainObserver& observer, JobLinks* job)
    : run_(planned.run),
      executor_(executor),
      job_(job),
      manifest_(std::move(begun)),
      observer_(observer),
      cost_(save_cost(planned)),
      state_(state_to_save(executor.module(), planned.run.recipe)) {
  if (job_ != nullptr) {
    ranks_.emplace(job_->host_group(kSavingGroup));
    manifest_.run = job_->job().exchange(manifest_.run).front();
    require_reach();
  }
  // A run resumed in the directory of its checkpoint can roll back to that one.
  if (const int64_t at = manifest_.step;
      at > 0 && fs::exists(fs::path(run_.options.out) / checkpoint_name(at)))
    saved_ = at;
  manifest_.device = executor.device().name();
  manifest_.asked = with_absolute_paths(as_asked(run_));
  manifest_.settled = with_absolute_paths(as_settled(run_, planned.recompute));
  try {
    if (cost_.staging > 0) staging_ = executor.device().allocate_host(cost_.staging);
  } catch (const Error& e) {
    if (e.code() != ExitCode::does_not_fit) throw;
    cost_.staging = 0;
    if (observer.said)
      observer.said(
          fmt::format("no staging for checkpoints, whose updates wait for the disk: {}", e.what()));
  }
}

RunSaver::~RunSaver() {
  if (saving_ && saving_->path.valid()) saving_->path.wait();
}

bool RunSaver::due(int64_t step) const {
  const SaveInterval& interval = cost_.interval;
  if (interval.steps > 0) return step % interval.steps == 0;
  const std::chrono::duration<double> since = Clock::now() - last_;
  return interval.seconds > 0 && since.count() >= interval.seconds;
}

// The results of all ranks, in their order. Where one fails, all do.
std::vector<std::string> RunSaver::together(Bootstrap* ranks,
                                            const std::function<std::string()>& work) const {
  if (ranks == nullptr) return {work()};
  constexpr char kMade = '+', kFailed = '-';
  std::string mine;
  std::exception_ptr failure;
  try {
    mine = kMade + work();
  } catch (...) {
    const Error why = current_error();
    mine = fmt::format("{}{}\n{}", kFailed, why.what(), why.hint());
    failure = std::current_exception();
  }
  std::vector<std::string> all = ranks->exchange(mine);
  if (failure) std::rethrow_exception(failure);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const bool failed = all[rank].front() == kFailed;
    all[rank].erase(0, 1);
    if (!failed) continue;
    const size_t hint = all[rank].rfind('\n');
    throw bad_input("rank {} on {}: {}", rank, job_->job().host(static_cast<int>(rank)),
                    all[rank].substr(0, hint))
        .hint(all[rank].substr(hint + 1));
  }
  return all;
}

// Now, while nothing is lost.
void RunSaver::require_reach() const {
  std::optional<StagedCheckpoint> staged;
  const fs::path folder =
      together(&job_->job(), [&] {
        return is_first() ? staged.emplace(run_.options.out, 0).folder().string() : "";
      }).front();
  together(&job_->job(), [&] {
    std::error_code failure;
    if (!fs::is_directory(folder, failure))
      throw bad_input("--out {} is not the directory that rank 0 writes to", run_.options.out)
          .hint("ranks on several hosts need one that all of them share");
    return std::string();
  });
}

// This rank's; the text is for the manifest.
std::string RunSaver::write_pieces(Saving& saving, const fs::path& folder) const {
  const PiecesOf pieces_of = [&](const ValuePart& part, const LookAtPiece& visit) {
    auto left = static_cast<size_t>(part.bytes);  // padding follows
    saving.stream.look(part.value, [&](std::span<const std::byte> next) {
      const auto mine = next.first(std::min(left, next.size()));
      if (!mine.empty()) visit(mine);
      left -= mine.size();
      saving.written += static_cast<int64_t>(mine.size());
    });
  };
  const Sharding& ranks = run_.recipe.sharding;
  const Mesh& mesh = run_.recipe.mesh;
  const int64_t rank = (mesh.stage * ranks.ranks + ranks.rank) * mesh.tp + mesh.part;
  return pieces_text(save_run_state(executor_.module(), state_, pieces_of,
                                    folder / state_file(rank, ranks_of(mesh, ranks))));
}

fs::path RunSaver::show(StagedCheckpoint& staged, const RunManifest& manifest,
                        bool replaces_others) const {
  write_text(staged.folder() / kConfigFile, run_.model.config_json(saved_dtype(run_.recipe)));
  write_text(staged.folder() / kManifestFile, manifest_text(manifest));
  fs::path saved = staged.commit();
  try {
    remove_old_checkpoints(run_.options.out, {.run = manifest.run,
                                              .keep = run_.options.keep,
                                              .keep_every = run_.options.keep_every,
                                              .others = replaces_others});
  } catch (const Error& e) {  // this one is whole
    note("older checkpoints stay: {}", e.what());
  }
  return saved;
}

// On a thread of its own: nothing here is said, and nothing but `saving` is changed.
fs::path RunSaver::write(Saving& saving, bool replaces_others) const {
  RunManifest& manifest = saving.manifest;
  try {
    std::optional<StagedCheckpoint> staged;
    const fs::path folder =
        together(ranks(), [&] {
          return is_first() ? staged.emplace(run_.options.out, manifest.step).folder().string()
                            : "";
        }).front();
    for (const std::string& pieces :
         together(ranks(), [&] { return write_pieces(saving, folder); }))
      std::ranges::move(parse_pieces(pieces), std::back_inserter(manifest.pieces));
    fs::path saved = together(ranks(), [&] {
                       return staged ? show(*staged, manifest, replaces_others).string() : "";
                     }).front();
    saving.seconds = std::chrono::duration<double>(Clock::now() - saving.began).count();
    return saved;
  } catch (...) {
    saving.stream.give_up();
    throw;
  }
}

// False: this step is saved.
bool RunSaver::start(const RunPlace& place) {
  if (saved_ == place.step) return false;
  last_ = Clock::now();
  flush_updates(executor_);
  manifest_.step = place.step;
  manifest_.position = place.position;
  manifest_.skipped = place.skipped;
  manifest_.bad = place.bad;
  const std::span<std::byte> staging =
      staging_ ? std::span(staging_->data(), static_cast<size_t>(staging_->bytes()))
               : std::span<std::byte>();
  // All ranks begin, or none: one that began alone would wait for the others for ever.
  try {
    together(job_ == nullptr ? nullptr : &job_->job(), [&] {
      saving_.reset(new Saving{.manifest = manifest_, .stream = {executor_, state_, staging}});
      return std::string();
    });
  } catch (...) {
    saving_.reset();
    throw;
  }
  const bool replaces_others = run_.options.overwrite && !alone_;
  try {
    saving_->path = std::async(std::launch::async, [this, &saving = *saving_, replaces_others] {
      return write(saving, replaces_others);
    });
  } catch (const std::system_error& e) {
    saving_.reset();
    constexpr const char* kWhy = "the system gives no thread for a checkpoint: {}";
    if (job_ != nullptr) throw device_error(kWhy, e.what());  // the others have begun
    throw bad_input(kWhy, e.what());
  }
  return true;
}

bool RunSaver::start_or_say(const RunPlace& place) {
  try {
    return start(place);
  } catch (const Error& e) {
    if (e.code() != ExitCode::bad_input && e.code() != ExitCode::does_not_fit) throw;
    say_failure(place.step, e);
    return false;
  }
}

void RunSaver::say_failure(int64_t step, const Error& error) const {
  if (observer_.said)
    observer_.said(fmt::format("no checkpoint of step {}: {}{}", step, error.what(),
                               saved_ ? "; the one before is whole" : ""));
}

// Shows how far it is, where that takes a while.
void RunSaver::wait() const {
  constexpr auto kPause = std::chrono::milliseconds(50);
  if (saving_->path.wait_for(kPause) == std::future_status::ready) return;
  TransferProgress progress("saving a checkpoint", cost_.bytes, observer_.doing);
  int64_t shown = 0;
  while (saving_->path.wait_for(kPause) != std::future_status::ready) {
    const int64_t written = saving_->written;
    progress.add(static_cast<size_t>(written - std::exchange(shown, written)));
  }
}

// Throws what it failed with.
void RunSaver::end() {
  const std::unique_ptr<Saving> saving = std::move(saving_);
  const fs::path path = saving->path.get();
  saved_ = saving->manifest.step;
  alone_ = true;
  if (!observer_.said) return;
  const std::string took =
      saving->seconds < 1
          ? ""
          : fmt::format(", {} in {}", format_bytes(cost_.bytes), format_seconds(saving->seconds));
  observer_.said(fmt::format("checkpoint: {}{}", path.string(), took));
}

void RunSaver::end_or_say() {
  const int64_t step = saving_->manifest.step;
  try {
    end();
  } catch (const Error& e) {
    if (e.code() != ExitCode::bad_input) throw;
    say_failure(step, e);
  }
}

void RunSaver::look() {
  if (saving_ && saving_->path.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    end_or_say();
}

void RunSaver::finish() {
  if (!saving_) return;
  wait();
  end_or_say();
}

void RunSaver::begin(const RunPlace& place) {
  look();
  if (saving_) {
    const Clock::time_point from = Clock::now();
    const int64_t step = saving_->manifest.step;
    finish();
    if (observer_.said)
      observer_.said(
          fmt::format("the checkpoint of step {} waited for that of step {}: {}", place.step, step,
                      format_seconds(std::chrono::duration<double>(Clock::now() - from).count())));
  }
  if (start_or_say(place) && run_.options.save_sync) finish();
}

void RunSaver::save(const RunPlace& place) {
  finish();
  if (!start(place)) return;
  wait();
  end();
}

void RunSaver::try_to_save(const RunPlace& place) {
  finish();
  if (start_or_say(place)) finish();
}

double RunSaver::expected_seconds() const {
  const bool during_steps = !cost_.interval.none() && !run_.options.save_sync;
  return cost_.disk_seconds * (during_steps ? 2 : 1);
}

std::optional<fs::path> RunSaver::last() const {
  if (!saved_) return std::nullopt;
  return fs::path(run_.options.out) / checkpoint_name(*saved_);
}

std::optional<std::string> RunSaver::resume_command() const {
  if (!saved_) return std::nullopt;
  // A run that went back has no newer one yet, and `latest` names what it left.
  const std::string from = is_latest(*last()) ? run_.options.out : last()->string();
  const std::string how = job_ == nullptr ? "" : job_->job().place().how;
  const int64_t ranks = ranks_of(run_.recipe.mesh, run_.recipe.sharding);
  return fmt::format("{}snug train --resume {}{}",
                     how == "mpirun" ? fmt::format("mpirun -n {} ", ranks) : "", from,
                     how == "snug" ? fmt::format(" --ranks {}", ranks) : "");
}

}  // namespace snug
