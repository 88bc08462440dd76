#include "profile/span_files.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ir/op_def.h"

namespace snug {
namespace {

std::string_view name_of_origin(SpanOrigin origin) {
  return origin == SpanOrigin::measured ? "measured" : "predicted";
}

// A name with a comma or a quote in it.
std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

// The peers: so many ranks along an axis, at a distance; of a message, the other's place on it.
void add_ranks(const Op& op, nlohmann::ordered_json& line) {
  line["axis"] = op.attrs.s("axis");
  line["ranks"] = op.attrs.i("ranks", 0);
  line["stride"] = op.attrs.i("stride", 1);
  if (op.def->comm != Comm::collective) line["peer"] = op.attrs.i("peer");
}

template <typename Visit>
void each_span(const Profile& profile, Visit&& visit) {
  for (const std::vector<Span>* spans : {&profile.measured, &profile.predicted}) {
    for (const Span& span : *spans) {
      const Program& program = profile.module->programs[static_cast<size_t>(span.program)];
      visit(span, program, program.ops[static_cast<size_t>(span.op)]);
    }
  }
}

}  // namespace

void write_spans_jsonl(const Profile& profile, const std::function<void(std::string_view)>& write) {
  each_span(profile, [&](const Span& span, const Program& program, const Op& op) {
    nlohmann::ordered_json line{{"origin", name_of_origin(span.origin)},
                                {"step", span.step},
                                {"run", span.run},
                                {"program", program.name},
                                {"op", op.name},
                                {"kind", op.def->kind},
                                {"ops", span.ops},
                                {"lane", span.lane},
                                {"layer", op.layer},
                                {"phase", name_of(op.phase)},
                                {"begin_s", span.begin},
                                {"end_s", span.end}};
    if (op.def->comm != Comm::none) add_ranks(op, line);
    write(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  });
}

void write_spans_csv(const Profile& profile, const std::function<void(std::string_view)>& write) {
  write("origin,step,run,program,op,kind,ops,lane,layer,phase,begin_s,end_s\n");
  each_span(profile, [&](const Span& span, const Program& program, const Op& op) {
    write(fmt::format("{},{},{},{},{},{},{},{},{},{},{:.9f},{:.9f}\n", name_of_origin(span.origin),
                      span.step, span.run, csv_cell(program.name), csv_cell(op.name), op.def->kind,
                      span.ops, csv_cell(span.lane), op.layer, name_of(op.phase), span.begin,
                      span.end));
  });
}

}  // namespace snug
