#include "profile/memory_lines.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profile/trace_events.h"

namespace snug {
namespace {

class LineSink final : public TraceSink {
 public:
  explicit LineSink(const std::function<void(std::string_view)>& write) : write_(write) {}

  void name_process(int, std::string_view name) override { origin_ = name; }
  void name_track(int, int, std::string_view) override {}
  void add_slice(const TraceSlice&) override {}

  void set_memory(const TraceMemory& memory) override {
    nlohmann::ordered_json live = nlohmann::ordered_json::object();
    for (int c = 0; c < kCategories; ++c)
      if (const int64_t bytes = memory.live[static_cast<size_t>(c)]; bytes > 0)
        live[std::string(name_of(static_cast<Category>(c)))] = bytes;
    write_(nlohmann::ordered_json{{"origin", origin_},
                                  {"space", name_of(memory.space)},
                                  {"step", memory.step},
                                  {"op", memory.op->name},
                                  {"layer", memory.op->layer},
                                  {"phase", name_of(memory.op->phase)},
                                  {"begin_s", static_cast<double>(memory.at) * 1e-9},
                                  {"live", live}}
               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n");
  }

 private:
  const std::function<void(std::string_view)>& write_;
  std::string origin_;
};

}  // namespace

void write_memory_jsonl(const Profile& profile,
                        const std::function<void(std::string_view)>& write) {
  LineSink sink(write);
  describe_memory(profile, sink);
}

}  // namespace snug
