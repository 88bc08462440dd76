// Megatron's X.idx, which says what is in X.bin next to it.
//
//   const MegatronIndex index = read_megatron_index(megatron_index_of("books.bin"));
//   index.token_bytes;   // 2
//
// Layout (little-endian): "MMIDIDX", two zero bytes, u64 version (1), u8 type (4: int32, 8: uint16),
// u64 sequences, u64 documents, then for each sequence an int32 length, for each an int64 offset in
// bytes, and an int64 for each document. Sequences must follow each other without a gap: they are
// read as one stream.
#pragma once

#include <cstdint>
#include <filesystem>

namespace snug {

struct MegatronIndex {
  int64_t token_bytes = 2;
  int64_t sequences = 0;
  int64_t tokens = 0;
};

std::filesystem::path megatron_index_of(std::filesystem::path bin);  // "books.idx" of "books.bin"

// Throws bad_input for what is damaged, and for other types and versions.
MegatronIndex read_megatron_index(const std::filesystem::path& path);

}  // namespace snug
