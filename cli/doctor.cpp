// snug doctor: the machine, its libraries, free memory, and what is missing.
#include <fmt/format.h>

#include "arguments.h"
#include "base/log.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int doctor_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the machine, its libraries, free memory, and what is missing", "snug doctor");
  bool json = false;
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  const DoctorReport report = doctor();
  print("{}", json ? report.json + "\n" : report.table);
  return 0;
}

}  // namespace snug::cli
