// Runs every file of a corpus once through a fuzz target, in builds that have no libFuzzer.
//
//   snug_fuzz_config_json FOLDER|FILE...      an input that breaks a target ends the process
#include <cstdio>
#include <filesystem>

#include "base/text.h"
#include "fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

int replay(const fs::path& path) {
  if (fs::is_directory(path)) {
    int inputs = 0;
    for (const auto& entry : fs::directory_iterator(path)) inputs += replay(entry.path());
    return inputs;
  }
  const std::string input = snug::read_file(path);
  fmt::print("{}: {} bytes\n", path.string(), input.size());
  std::fflush(stdout);  // the last line names the input that ended the process
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  return 1;
}

}  // namespace

int main(int count, char** words) {
  int inputs = 0;
  for (int i = 1; i < count; ++i) inputs += replay(words[i]);
  fmt::print("{} inputs\n", inputs);
  return inputs > 0 ? 0 : 1;
}
