// The index of sharded weights, with two shards: a tensor that it promises is in its shard.
#include <unistd.h>

#include <fstream>

#include "formats/safetensors_checkpoint.h"
#include "fuzz/input.h"

namespace {

using namespace snug;
namespace fs = std::filesystem;

// A directory with two shards, a.safetensors and b.safetensors, and the input as their index.
struct ModelDirectory {
  const fs::path path = fs::temp_directory_path() / fmt::format("snug-fuzz-{}", ::getpid());
  const fs::path index = path / kWeightsIndexFile;

  ModelDirectory() {
    fs::create_directory(path);
    for (const char* shard : {"a", "b"}) {
      const std::string header =
          fmt::format(R"({{"{}.x":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}})", shard);
      std::ofstream(path / fmt::format("{}.safetensors", shard))
          << static_cast<char>(header.size()) << std::string(7, '\0') << header << "data";
    }
    fs::create_symlink(fuzz::as_file(""), index);
  }
  ~ModelDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ModelDirectory(const ModelDirectory&) = delete;
  ModelDirectory& operator=(const ModelDirectory&) = delete;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ModelDirectory directory;
  fuzz::as_file(fuzz::text(data, size));
  fuzz::parse_or_refuse([&] {
    const CheckpointReader weights(directory.index);
    for (const std::string& name : weights.names())
      fuzz::require(weights.find(name) != nullptr, "a tensor of the index is not found");
  });
  return 0;
}
