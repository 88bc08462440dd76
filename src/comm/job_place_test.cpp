#include "comm/job_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

std::optional<JobPlace> place_in(const Variables& variables) {
  return job_place([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

void expect_no_place(const Variables& variables, const std::string& sentence) {
  try {
    place_in(variables);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr(sentence));
  }
}

const Variables kTorchrun{{"RANK", "2"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "0"},
                          {"MASTER_ADDR", "node1"},
                          {"MASTER_PORT", "29500"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                         {"OMPI_MCA_ess_base_jobid", "775"}};
const Variables kSrun{{"SLURM_PROCID", "5"},     {"SLURM_NTASKS", "8"},
                      {"SLURM_LOCALID", "1"},    {"SLURM_JOB_NODELIST", "gpu[03-04,09],login"},
                      {"SLURM_JOB_ID", "41234"}, {"SLURM_STEP_ID", "0"}};

}  // namespace

TEST(JobPlace, EnvironmentWithoutJob) {
  EXPECT_FALSE(place_in({}));
  EXPECT_FALSE(place_in({{"MASTER_ADDR", "node1"}, {"LOCAL_RANK", "0"}}));
  // A batch script has SLURM's variables, and is no rank before srun starts it.
  Variables batch = kSrun;
  batch.erase("SLURM_STEP_ID");
  EXPECT_FALSE(place_in(batch));
}

TEST(JobPlace, Torchrun) {
  const auto place = place_in(kTorchrun);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->how, "torchrun");
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->ranks, 4);
  EXPECT_EQ(place->local_rank, 0);
  EXPECT_EQ(place->address, "node1");
  EXPECT_EQ(place->port, 29500);
  EXPECT_EQ(place->token, "");
  EXPECT_EQ(place_in(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}))->port, 29501)
      << "torchrun itself listens at MASTER_PORT";
  EXPECT_EQ(place_in({{"RANK", "0"}, {"WORLD_SIZE", "1"}})->ranks, 1) << "no other rank to find";
}

TEST(JobPlace, LauncherAddsVariables) {
  const auto place = place_in(with(kTorchrun, {{kTokenVariable, "abc"},
                                               {kListenerVariable, "7"},
                                               {kLauncherVariable, "123"},
                                               {"TORCHELASTIC_RUN_ID", "none"}}));
  EXPECT_EQ(place->how, "snug");
  EXPECT_EQ(place->token, "abc");
  EXPECT_EQ(place->listener, 7);
}

TEST(JobPlace, Mpirun) {
  const auto place = place_in(kOpenMpi);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->how, "mpirun");
  EXPECT_EQ(place->rank, 1);
  EXPECT_EQ(place->ranks, 3);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->local_name, "775");
  EXPECT_EQ(place->address, "");

  const auto hosts = place_in(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(hosts->local_name, "") << "not all are here";
  EXPECT_EQ(hosts->address, "");
  const auto told = place_in(with(kOpenMpi, {{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "99"}}));
  EXPECT_EQ(told->address, "node7");
  EXPECT_EQ(told->local_name, "");

  const auto hydra = place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(hydra->how, "mpirun");
  EXPECT_NE(hydra->local_name, "");
}

TEST(JobPlace, Srun) {
  const auto place = place_in(kSrun);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->how, "srun");
  EXPECT_EQ(place->rank, 5);
  EXPECT_EQ(place->ranks, 8);
  EXPECT_EQ(place->local_rank, 1);
  EXPECT_EQ(place->address, "gpu03");
  EXPECT_EQ(place->port, 16234);
  EXPECT_EQ(place->token, "41234.0");
  EXPECT_EQ(place_in(with(kSrun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}))->how, "srun");
  EXPECT_EQ(place_in(with(kSrun, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}))->address, "a");
}

TEST(JobPlace, HalfOfAPlaceIsRefused) {
  expect_no_place({{"RANK", "0"}}, "RANK=0 and no WORLD_SIZE");
  expect_no_place({{"WORLD_SIZE", "2"}}, "WORLD_SIZE=2 and no RANK");
  expect_no_place({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "and no MASTER_ADDR");
  Variables half = kTorchrun;
  half.erase("MASTER_PORT");
  expect_no_place(half, "MASTER_ADDR and no MASTER_PORT");
  expect_no_place({{"OMPI_COMM_WORLD_SIZE", "2"}}, "and no OMPI_COMM_WORLD_RANK");
  expect_no_place({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}, "and no SLURM_NTASKS");
  Variables nowhere = kSrun;
  nowhere.erase("SLURM_JOB_NODELIST");
  expect_no_place(nowhere, "SLURM_JOB_NODELIST=''");
}

TEST(JobPlace, NonsenseIsRefused) {
  expect_no_place(with(kTorchrun, {{"RANK", "4"}}), "RANK=4 and WORLD_SIZE=4: ranks are 0 to 3");
  expect_no_place(with(kTorchrun, {{"RANK", "two"}}), "RANK is 'two', not a whole number");
  expect_no_place(with(kTorchrun, {{"RANK", "-1"}}), "RANK is '-1'");
  expect_no_place(with(kTorchrun, {{"WORLD_SIZE", "4x"}}), "WORLD_SIZE is '4x'");
  expect_no_place(with(kTorchrun, {{"MASTER_PORT", "70000"}}), "MASTER_PORT is '70000'");
  expect_no_place(with(kTorchrun, {{"LOCAL_RANK", ""}}), "LOCAL_RANK is ''");
}

TEST(JobPlace, FirstHostOfSlurmList) {
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("n[7,9-12]"), "n7");
  EXPECT_EQ(first_host("rack[1-2]n[03-04]-ib,x"), "rack1n03-ib");
  EXPECT_EQ(first_host(""), "");
}

}  // namespace snug
