// JSONL to a file of samples, on all cores, in pieces: neither is in memory whole.
//
//   SampleFileWriter out("chat.samples", format.vocabulary());
//   const SampleLines lines = tokenize_samples(files, format, 0, out, progress);
//   out.commit(lines);
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "data/sample_encoder.h"
#include "data/text_files.h"
#include "data/tokenize_text.h"
#include "formats/sample_file.h"

namespace snug {

// So many bad lines are passed over. Empty samples are left out and counted. Throws bad_input with
// file and line for a bad line that is not passed over, and where no sample is left; a usage error
// where the model cannot write conversations.
SampleLines tokenize_samples(std::span<const TextFile> files, const SampleFormat& format,
                             int64_t skip_bad, SampleFileWriter& out,
                             const std::function<void(const TokenizeProgress&)>& progress);

}  // namespace snug
