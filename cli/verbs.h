// The verbs of the command line, one file each. A verb gets the arguments after its name and
// returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "snug/snug.h"

namespace snug::cli {

int plan_verb(const std::vector<std::string>& arguments);
int profile_verb(const std::vector<std::string>& arguments);
int report_verb(const std::vector<std::string>& arguments);
int train_verb(const std::vector<std::string>& arguments);
int eval_verb(const std::vector<std::string>& arguments);
int sample_verb(const std::vector<std::string>& arguments);
int checkpoint_verb(const std::vector<std::string>& arguments);
int merge_verb(const std::vector<std::string>& arguments);
int fit_verb(const std::vector<std::string>& arguments);
int inspect_verb(const std::vector<std::string>& arguments);
int ladder_verb(const std::vector<std::string>& arguments);
int bench_verb(const std::vector<std::string>& arguments);
int calibrate_verb(const std::vector<std::string>& arguments);
int deepspeed_verb(const std::vector<std::string>& arguments);
int doctor_verb(const std::vector<std::string>& arguments);
int gpus_verb(const std::vector<std::string>& arguments);
int tokenize_verb(const std::vector<std::string>& arguments);
int models_verb(const std::vector<std::string>& arguments);

// The report on stdout, and where its files are.
void print_profile(const ProfileReport& report, bool json);

}  // namespace snug::cli
