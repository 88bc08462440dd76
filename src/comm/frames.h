// Messages of a job's control connections: a header with a magic and a size that is checked against
// a limit before anything is kept, then fields of text. What is no message is bad input.
//
//   FrameReader reader;
//   reader.append(received);
//   while (std::optional<Frame> frame = reader.next(limit)) handle(frame->kind, frame->fields());
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

enum class FrameKind : uint32_t {
  hello = 1,  // protocol, token, rank, ranks, host, pid
  refused,    // has the sentence been printed, the sentence
  welcome,    // host and pid of every rank
  offer,      // a rank's text of an exchange
  all,        // every rank's
  beat,       // a sign of life: step, part, what the rank does
  failure,    // of a rank that throws: exit code, sentence, hint
  end,        // the job ends: exit code, sentence
  goodbye,    // of a rank that has done its work, and of rank 0 when all have
};
inline constexpr auto kLastFrameKind = FrameKind::goodbye;

struct Frame {
  FrameKind kind{};
  std::string body;

  std::vector<std::string> fields() const;
  // Throws where there are more or fewer.
  std::vector<std::string> fields(size_t count) const;
};

std::string frame_bytes(FrameKind kind, std::span<const std::string> fields);

class FrameReader {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  // Nothing: its end has not come yet. Throws bad_input for what is no frame or has a body of more
  // than `limit` bytes.
  std::optional<Frame> next(uint64_t limit);

 private:
  std::string bytes_;
};

}  // namespace snug
