#include "profile/trace_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "profile/trace_events.h"

namespace snug {
namespace {

// What is no UTF-8 is replaced.
std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

class JsonSink final : public TraceSink {
 public:
  explicit JsonSink(const std::function<void(std::string_view)>& write) : write_(write) {}

  void name_process(int process, std::string_view name) override {
    event("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":{}}}", process,
          json_text(name));
  }

  void name_track(int process, int track, std::string_view name) override {
    event("\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}",
          process, track, json_text(name));
    event(
        "\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},"
        "\"args\":{{\"sort_index\":{}}}",
        process, track, track);
  }

  void add_slice(const TraceSlice& slice) override {
    std::string facts;
    for (const auto& [name, value] : slice.facts) {
      const auto* number = std::get_if<int64_t>(&value);
      facts += fmt::format("{}\"{}\":{}", facts.empty() ? "" : ",", name,
                           number != nullptr ? std::to_string(*number)
                                             : json_text(std::get<std::string_view>(value)));
    }
    const int64_t length = slice.end - slice.begin;
    event(
        "\"ph\":\"X\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},"
        "\"args\":{{{}}}",
        json_text(slice.name), json_text(slice.category), slice.process, slice.track,
        microseconds(slice.begin), microseconds(length), facts);
    // Both ends of a flow are inside their slices, where viewers look for them.
    for (const int64_t flow : slice.from) add_flow("f\",\"bp\":\"e", slice, flow, length / 10);
    for (const int64_t flow : slice.to) add_flow("s", slice, flow, length - length / 10);
  }

  void set_memory(const TraceMemory& memory) override {
    std::string values;
    for (int c = 0; c < kCategories; ++c)
      values += fmt::format("{}\"{}\":{}", c == 0 ? "" : ",", name_of(static_cast<Category>(c)),
                            memory.live[static_cast<size_t>(c)]);
    event("\"ph\":\"C\",\"name\":\"{} memory\",\"pid\":{},\"tid\":0,\"ts\":{},\"args\":{{{}}}",
          name_of(memory.space), memory.process, microseconds(memory.at), values);
  }

 private:
  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    write_(any_ ? ",\n{" : "{");
    any_ = true;
    write_(fmt::format(format, std::forward<Args>(args)...));
    write_("}");
  }

  void add_flow(std::string_view end, const TraceSlice& slice, int64_t flow, int64_t after) {
    event(
        "\"ph\":\"{}\",\"name\":\"waits\",\"cat\":\"waits\",\"id\":{},\"pid\":{},\"tid\":{},"
        "\"ts\":{}",
        end, flow, slice.process, slice.track, microseconds(slice.begin + after));
  }

  const std::function<void(std::string_view)>& write_;
  bool any_ = false;
};

}  // namespace

void write_trace_json(const Profile& profile, const std::function<void(std::string_view)>& write) {
  write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  JsonSink sink(write);
  describe_trace(profile, sink);
  write("\n]}\n");
}

}  // namespace snug
