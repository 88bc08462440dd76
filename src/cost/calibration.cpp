#include "cost/calibration.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/cache.h"
#include "base/error.h"
#include "base/notes.h"
#include "base/text.h"
#include "base/units.h"

namespace snug {
namespace {

using nlohmann::json;
constexpr int kFormat = 6;  // since 4, "has" knows grouped attention; since 6, its server

json to_json(const OpSample& s) {
  return {{"kind", s.kind}, {"dtype", name_of(s.dtype)}, {"tf32", s.tf32},
          {"has", s.has},   {"flops", s.flops},          {"bytes", s.bytes},
          {"exps", s.exps}, {"seconds", s.seconds}};
}

// What took no time that a clock can tell says nothing, and is left out.
json to_json(const Calibration& c) {
  json samples = json::array();
  for (const OpSample& sample : c.samples)
    if (std::isfinite(sample.seconds) && sample.seconds > 0) samples.push_back(to_json(sample));
  json out = {{"format", kFormat},    {"device", c.device},
              {"threads", c.threads}, {"versions", c.versions},
              {"date", c.date},       {"copy_bytes_per_s", c.copy_bytes_per_s},
              {"samples", samples}};
  if (c.link) out["link"] = {{"in", c.link->in}, {"out", c.link->out}, {"both", c.link->both}};
  if (c.disk) out["disk"] = {{"read", c.disk->read}, {"write", c.disk->write}};
  if (c.host_bytes_per_s > 0) out["host_bytes_per_s"] = c.host_bytes_per_s;
  return out;
}

double number(const json& object, const char* key, bool may_be_zero) {
  const auto value = object.at(key).get<double>();
  if (!std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero))
    throw bad_input("\"{}\" is {}", key, value);
  return value;
}

int64_t whole_number(const json& object, const char* key, int64_t largest) {
  const json& value = object.at(key);
  if (!value.is_number_integer() || value < 0 || value > largest)
    throw bad_input("\"{}\" is no whole number up to {}", key, largest);
  return value.get<int64_t>();
}

OpSample sample_from(const json& object) {
  OpSample sample;
  sample.kind = object.at("kind").get<std::string>();
  const auto dtype = object.at("dtype").get<std::string>();
  const auto known = parse_dtype(dtype);
  if (!known) throw bad_input("\"dtype\" is '{}'", dtype);
  sample.dtype = *known;
  sample.tf32 = object.at("tf32").get<bool>();
  sample.has =
      static_cast<uint32_t>(whole_number(object, "has", std::numeric_limits<uint32_t>::max()));
  sample.flops = number(object, "flops", true);
  sample.bytes = number(object, "bytes", true);
  sample.exps = number(object, "exps", true);
  sample.seconds = number(object, "seconds", false);
  return sample;
}

// Throws where the content is not what `to_json` makes.
Calibration calibration_from(const json& object) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  if (const int64_t format = whole_number(object, "format", kLargest); format != kFormat)
    throw bad_input("it is of format {}, not {}", format, kFormat);
  Calibration c;
  c.device = object.at("device").get<std::string>();
  c.threads = whole_number(object, "threads", kLargest);
  c.versions = object.at("versions").get<std::string>();
  c.date = object.at("date").get<std::string>();
  c.copy_bytes_per_s = number(object, "copy_bytes_per_s", false);
  // Files of this format from before offload have none of these.
  if (object.contains("link")) {
    const json& link = object.at("link");
    c.link =
        Link{number(link, "in", false), number(link, "out", false), number(link, "both", false)};
  }
  if (object.contains("disk")) {
    const json& disk = object.at("disk");
    c.disk = DiskRates{number(disk, "read", false), number(disk, "write", false)};
  }
  if (object.contains("host_bytes_per_s"))
    c.host_bytes_per_s = number(object, "host_bytes_per_s", false);
  for (const json& sample : object.at("samples")) c.samples.push_back(sample_from(sample));
  if (c.samples.empty()) throw bad_input("it has no samples");
  return c;
}

std::string text_of(std::string_view device, int64_t threads) {
  return threads == 0 ? std::string(device)
                      : fmt::format("{} with {}", device, counted(threads, "thread"));
}

}  // namespace

std::filesystem::path calibration_path(std::string_view device, int64_t threads) {
  const std::string on = threads == 0 ? "" : fmt::format("-{}-threads", threads);
  return cache_file(fmt::format("calibration-{}{}.json", slug(device), on));
}

std::optional<Calibration> read_calibration(const std::filesystem::path& path,
                                            std::string_view device, int64_t threads,
                                            std::string_view versions) {
  std::error_code failure;
  if (path.empty() || !std::filesystem::exists(path, failure)) return std::nullopt;
  try {
    Calibration c = calibration_from(json::parse(read_file(path)));
    if (c.device != device || c.threads != threads)
      throw bad_input("it was measured on {}, not on {}", text_of(c.device, c.threads),
                      text_of(device, threads));
    if (!versions.empty() && c.versions != versions)
      throw bad_input("it was measured with {}, and now there is {}", c.versions, versions);
    return c;
  } catch (const json::exception&) {
    note("{}: a damaged calibration is ignored; 'snug calibrate' measures again", path.string());
  } catch (const Error& error) {
    note("{}: a calibration is ignored: {}; 'snug calibrate' measures again", path.string(),
         error.what());
  }
  return std::nullopt;
}

void write_calibration(const std::filesystem::path& path, const Calibration& calibration) {
  std::error_code failure;  // told by the write
  std::filesystem::create_directories(path.parent_path(), failure);
  write_file_atomically(path, to_json(calibration).dump(1) + "\n");
}

}  // namespace snug
