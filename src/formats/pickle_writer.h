// Writes a pickle of plain data: dicts, lists, pairs, texts, numbers. Protocol 2, and only the opcodes
// that PyTorch's memory viewer reads, in batches of a size that it takes.
//
//   PickleWriter out;
//   out.begin_dict();
//   out.key("sizes");
//   out.begin_list();
//   out.integer(7);
//   out.end();
//   out.end();
//   std::string bytes = out.finish();
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

class PickleWriter {
 public:
  PickleWriter();

  void begin_dict();
  void begin_list();
  void end();  // of the one begun last
  void key(std::string_view name);

  void integer(int64_t value);
  void real(double value);
  void boolean(bool value);
  void none();
  void text(std::string_view value);  // UTF-8; one that was written before is referred to
  void pair(int64_t first, int64_t second);

  // What was written last, to be written again by `again`.
  uint32_t remember();
  void again(uint32_t remembered);

  std::string finish();  // all of it; everything begun has ended

 private:
  struct Open {
    bool dict;
    int64_t items = 0;
  };
  void item();  // before a value that is one of a list
  void next_batch(Open& open, char opcode);
  void put(uint32_t number);
  void get(uint32_t number);

  std::string bytes_;
  std::vector<Open> open_;
  std::map<std::string, uint32_t, std::less<>> texts_;
  uint32_t remembered_ = 0;
};

}  // namespace snug
