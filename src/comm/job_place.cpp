#include "comm/job_place.h"

#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/number.h"

namespace snug {
namespace {

constexpr int kMostRanks = 65'536;

class PlaceReader {
 public:
  explicit PlaceReader(const Lookup& variable) : variable_(variable) {}

  bool has(const char* name) const { return variable_(name) != nullptr; }
  std::string text(const char* name) const {
    const char* value = variable_(name);
    return value == nullptr ? "" : value;
  }
  int number(const char* name, int most) const {
    const std::string said = text(name);
    int value = -1;
    if (!read_number(said, value) || value < 0 || value > most) {
      throw usage_error("the environment's {} is '{}', not a whole number of at most {}", name,
                        said, most);
    }
    return value;
  }

  // Rank, number of ranks and local rank from three variables; the third may be missing.
  JobPlace place(std::string how, const char* rank, const char* ranks, const char* local) const {
    for (const auto& [there, missing] : {std::pair{rank, ranks}, std::pair{ranks, rank}}) {
      if (has(missing)) continue;
      throw usage_error("the environment has {}={} and no {}", there, text(there), missing)
          .hint(fmt::format("a rank of a job has both; `unset {}` trains alone", there));
    }
    JobPlace out{.how = std::move(how)};
    out.rank = number(rank, kMostRanks);
    out.ranks = number(ranks, kMostRanks);
    if (out.rank >= out.ranks) {
      throw usage_error("the environment has {}={} and {}={}: ranks are 0 to {}", rank, out.rank,
                        ranks, out.ranks, out.ranks - 1);
    }
    if (has(local)) out.local_rank = number(local, kMostRanks);
    return out;
  }

  // False: neither variable is there.
  bool read_master(JobPlace& place) const {
    const bool has_address = !text("MASTER_ADDR").empty(), has_port = has("MASTER_PORT");
    if (!has_address && !has_port) return false;
    if (!has_address || !has_port) {
      throw usage_error("the environment has {} and no {}",
                        has_address ? "MASTER_ADDR" : "MASTER_PORT",
                        has_address ? "MASTER_PORT" : "MASTER_ADDR");
    }
    place.address = text("MASTER_ADDR");
    place.port = number("MASTER_PORT", 65'535);
    return true;
  }

 private:
  const Lookup& variable_;
};

JobPlace torchrun_place(const PlaceReader& env) {
  JobPlace out = env.place("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK");
  if (!env.read_master(out) && out.ranks > 1) {
    throw usage_error("the environment has RANK={} and WORLD_SIZE={}, and no MASTER_ADDR", out.rank,
                      out.ranks)
        .hint("MASTER_ADDR and MASTER_PORT say where rank 0 listens");
  }
  // torchrun's own store listens at MASTER_PORT then.
  if (env.text("TORCHELASTIC_USE_AGENT_STORE") == "True" && out.port < 65'535) ++out.port;
  out.token = env.text("TORCHELASTIC_RUN_ID");
  if (env.has(kListenerVariable)) out.listener = env.number(kListenerVariable, 1 << 20);
  if (env.has(kLauncherVariable)) out.how = "snug";
  return out;
}

JobPlace mpirun_place(const PlaceReader& env) {
  const bool open_mpi = env.has("OMPI_COMM_WORLD_RANK") || env.has("OMPI_COMM_WORLD_SIZE");
  JobPlace out = open_mpi ? env.place("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK")
                          : env.place("mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID");
  if (env.read_master(out)) return out;
  const char* here = open_mpi ? "OMPI_COMM_WORLD_LOCAL_SIZE" : "MPI_LOCALNRANKS";
  if (!env.has(here) || env.number(here, kMostRanks) != out.ranks) return out;
  // All of them are here: what only they know is a name to meet at.
  for (const char* id : {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID"})
    if (out.local_name.empty()) out.local_name = env.text(id);
  if (out.local_name.empty()) out.local_name = fmt::format("{}", getppid());
  return out;
}

JobPlace srun_place(const PlaceReader& env) {
  JobPlace out = env.place("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID");
  const std::string job = env.text("SLURM_JOB_ID");
  out.token = fmt::format("{}.{}", job, env.text("SLURM_STEP_ID"));
  if (out.ranks == 1 || env.read_master(out)) return out;
  out.address = first_host(env.text("SLURM_JOB_NODELIST"));
  int64_t number = 0;
  if (out.address.empty() || !read_number(job, number) || number < 0) {
    throw usage_error("srun's environment has SLURM_JOB_NODELIST='{}' and SLURM_JOB_ID='{}'",
                      env.text("SLURM_JOB_NODELIST"), job)
        .hint("MASTER_ADDR and MASTER_PORT can say where rank 0 listens");
  }
  out.port = static_cast<int>(15'000 + number % 10'000);  // the same on every host
  return out;
}

std::optional<JobPlace> find_place(const PlaceReader& env) {
  if (env.has("RANK") || env.has("WORLD_SIZE")) return torchrun_place(env);
  const bool in_step = env.has("SLURM_STEP_ID") && env.has("SLURM_PROCID");
  const bool srun_has_pmi = in_step && env.text("PMI_RANK") == env.text("SLURM_PROCID");
  if (env.has("OMPI_COMM_WORLD_RANK") || env.has("OMPI_COMM_WORLD_SIZE")) return mpirun_place(env);
  if ((env.has("PMI_RANK") || env.has("PMI_SIZE")) && !srun_has_pmi) return mpirun_place(env);
  if (in_step) return srun_place(env);
  return std::nullopt;
}

}  // namespace

std::optional<JobPlace> job_place(const Lookup& variable) {
  const PlaceReader env(variable);
  std::optional<JobPlace> place = find_place(env);
  if (place && env.has(kTokenVariable)) place->token = env.text(kTokenVariable);
  return place;
}

std::optional<JobPlace> job_place() {
  return job_place([](const char* name) { return std::getenv(name); });
}

std::string first_host(std::string_view list) {
  std::string out;
  bool inside = false, skipping = false;
  for (const char c : list) {
    if (c == '[') {
      inside = true;
    } else if (c == ']') {
      inside = skipping = false;
    } else if (inside) {
      skipping = skipping || c == '-' || c == ',';
      if (!skipping) out += c;
    } else if (c == ',') {
      break;
    } else {
      out += c;
    }
  }
  return out;
}

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

}  // namespace snug
