#include "cost/wire_times.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/cache.h"
#include "base/error.h"
#include "base/notes.h"
#include "base/text.h"

namespace snug {
namespace {

using nlohmann::json;

constexpr int kWireFormat = 1;

WireTimes wire_from(const json& row) {
  WireTimes wire{.ranks = row.at("ranks").get<int64_t>(),
                 .engine = row.at("engine").get<std::string>(),
                 .latency = row.at("latency").get<double>(),
                 .rate = row.at("rate").get<double>()};
  const bool sane = wire.ranks > 1 && std::isfinite(wire.latency) && wire.latency >= 0 &&
                    std::isfinite(wire.rate) && wire.rate > 0;
  if (!sane) throw bad_input("a wire of {} ranks has no rate", wire.ranks);
  return wire;
}

}  // namespace

std::filesystem::path wire_path(std::string_view device) {
  return cache_file(fmt::format("wire-{}.json", slug(device)));
}

std::vector<WireTimes> read_wires(const std::filesystem::path& path) {
  std::error_code failure;
  if (path.empty() || !std::filesystem::exists(path, failure)) return {};
  try {
    const json file = json::parse(read_file(path));
    if (file.at("format") != kWireFormat) throw bad_input("it is of another format");
    std::vector<WireTimes> wires;
    for (const json& row : file.at("wires")) wires.push_back(wire_from(row));
    return wires;
  } catch (const std::exception&) {
    note("{}: damaged times of collectives are ignored; 'snug calibrate --ranks N' measures again",
         path.string());
  }
  return {};
}

void keep_wire(const std::filesystem::path& path, const WireTimes& measured) {
  std::vector<WireTimes> wires = read_wires(path);
  std::erase_if(wires, [&](const WireTimes& wire) { return wire.ranks == measured.ranks; });
  wires.push_back(measured);
  json rows = json::array();
  for (const WireTimes& wire : wires)
    rows.push_back({{"ranks", wire.ranks},
                    {"engine", wire.engine},
                    {"latency", wire.latency},
                    {"rate", wire.rate}});
  std::error_code failure;  // told by the write
  std::filesystem::create_directories(path.parent_path(), failure);
  write_file_atomically(path, json{{"format", kWireFormat}, {"wires", rows}}.dump(1) + "\n");
}

}  // namespace snug
