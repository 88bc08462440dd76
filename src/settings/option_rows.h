// The rows of the option table, by the file that declares them; settings/option.cpp joins them in this order, which is
// that of help and documents.
#pragma once

#include <vector>

#include "settings/option_row.h"

namespace snug {

std::vector<Option> accumulate_options();   // techniques/accumulate/settings.cpp
std::vector<Option> mesh_options();         // techniques/pipeline/settings.cpp
std::vector<Option> zero_options();         // techniques/zero/settings.cpp
std::vector<Option> adapter_options();      // techniques/adapters/settings.cpp
std::vector<Option> base_options();         // techniques/base/settings.cpp
std::vector<Option> precision_options();    // techniques/precision/settings.cpp
std::vector<Option> attention_options();    // techniques/attention/settings.cpp
std::vector<Option> loss_options();         // techniques/loss/settings.cpp
std::vector<Option> recompute_options();    // techniques/recompute/settings.cpp
std::vector<Option> compress_options();     // techniques/compress/settings.cpp
std::vector<Option> offload_options();      // techniques/offload/settings.cpp
std::vector<Option> host_update_options();  // techniques/host_update/settings.cpp
std::vector<Option> optimizer_options();    // techniques/optimizer/settings.cpp
std::vector<Option> run_options();          // settings/run_options.cpp
std::vector<Option> training_options();     // settings/training_options.cpp
std::vector<Option> data_options();         // settings/data_options.cpp
std::vector<Option> saving_options();       // settings/saving_options.cpp

}  // namespace snug
