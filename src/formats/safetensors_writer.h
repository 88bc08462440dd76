// safetensors, written: tensors stream from wherever they are, so the model is never held twice.
//
//   auto norm = [&](const ByteSink& sink) { sink(norm_bytes); };
//   std::vector<TensorToWrite> tensors{{"model.norm.weight", {Dtype::f32, {896}}, norm}};
//   write_checkpoint("out", tensors);   // out/model.safetensors, or shards and their index
//
// Files appear complete or not at all; a directory that cannot be written and a disk that is full
// are bad_input errors with the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "ir/type.h"

namespace snug {

using ByteSink = std::function<void(std::span<const std::byte>)>;

struct TensorToWrite {
  std::string name;
  Type type;
  std::function<void(const ByteSink&)> bytes;  // gives exactly type.bytes(), in any pieces
};

constexpr int64_t kMaxShardBytes = 5'000'000'000;  // as Hugging Face cuts them

// One file with exactly these tensors.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors);

// model.safetensors when all fits in one shard, else model-00001-of-0000N.safetensors ... and the
// index. A tensor larger than a shard has a shard to itself. Files appear together at the end, the
// index last. Shards begin with `shard_prefix`: under new names, they replace no file until the
// index names them.
void write_checkpoint(const std::filesystem::path& directory,
                      std::span<const TensorToWrite> tensors,
                      int64_t max_shard_bytes = kMaxShardBytes,
                      std::string_view shard_prefix = "model");

}  // namespace snug
