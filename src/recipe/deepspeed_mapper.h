// What the parts of the mapping share: the lines of the file as they are filled in.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "recipe/deepspeed.h"

namespace snug {

class DeepSpeedMapper {
 public:
  DeepSpeedMapper(const DeepSpeedConfig& config, const DeepSpeedPlace& at);

  const DeepSpeedConfig& file;
  const DeepSpeedPlace& place;
  int64_t replicas = 1;  // ranks that have samples of their own: DeepSpeed's data-parallel ones

  // A key sets options. Where the file does not have it, its default does.
  void set(std::string_view path, const Change& change, std::string here = "");
  // What the key does, in place of the table's words.
  void say(std::string_view path, std::string here);
  // The same for every key of a block that has a value, but `except`.
  void say_of_block(std::string_view block, std::string_view except, const std::string& here);
  void show(std::string_view path, std::string value);
  void refuse(std::string_view path, std::string here);

  // "ds.json: optimizer.type is ..."
  template <typename... Args>
  Error refusal(std::string_view path, fmt::format_string<Args...> format, Args&&... args) const {
    return bad_input("{}: {} {}", file.where(), path,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  // "auto": the command line says it, else the default counts.
  bool is_open(std::string_view path) const { return file.is_automatic(path); }

  DeepSpeedMapped result;

 private:
  DeepSpeedLine* line(std::string_view path);
};

// Of bytes and time. The mesh comes first: batches are for its replicas.
void map_mesh(DeepSpeedMapper& m);
void map_batches(DeepSpeedMapper& m);
void map_precision(DeepSpeedMapper& m);
void map_zero(DeepSpeedMapper& m);
void map_offload(DeepSpeedMapper& m);
void map_checkpointing(DeepSpeedMapper& m);
// Of what is learned.
void map_optimizer(DeepSpeedMapper& m);
void map_scheduler(DeepSpeedMapper& m);
void map_other_learning(DeepSpeedMapper& m);

}  // namespace snug
