#include <algorithm>
#include <array>
#include <cctype>

#include "base/units.h"
#include "ir/text.h"

namespace snug {
namespace {

constexpr size_t kWrap = 110;  // lists of inputs break after this column

// --- words -------------------------------------------------------------------------------------

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string word(std::string_view name) {
  const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_.@/-").find(c) != std::string_view::npos;
  });
  return plain ? std::string(name) : in_quotes(name);
}

// Always with a mark that tells it from an integer.
std::string real(double v) {
  std::string out = fmt::format("{}", v);
  return out.find_first_not_of("-0123456789") == std::string::npos ? out + ".0" : out;
}

std::string attribute(const AttrValue& value) {
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<int64_t>(&value)) return fmt::format("{}", *i);
  if (const auto* f = std::get_if<double>(&value)) return real(*f);
  return in_quotes(std::get<std::string>(value));
}

// Appends a fact to a line, two blanks apart.
void append(std::string& line, std::string_view fact) {
  if (!line.empty()) line += "  ";
  line += fact;
}

std::string param_facts(const Value& value) {
  const Param& p = *value.param;
  std::string out = "init ";
  switch (p.init.kind) {
    case Init::Kind::zeros:
      out += "zeros";
      break;
    case Init::Kind::constant:
      out += fmt::format("constant({})", real(p.init.value));
      break;
    case Init::Kind::normal:
      out += fmt::format("normal({})", real(p.init.value));
      break;
  }
  if (p.role != Role::none) append(out, fmt::format("role {}", name_of(p.role)));
  if (p.in_out) append(out, "in_out");
  if (p.heads != 0) append(out, fmt::format("heads {}", p.heads));
  if (p.value_heads != 0) append(out, fmt::format("value_heads {}", p.value_heads));
  if (!p.trainable) append(out, "frozen");
  if (p.adapter) append(out, "adapter");
  if (p.stored != Stored::plain) append(out, fmt::format("stored {}", name_of(p.stored)));
  std::string parts;
  for (const CheckpointPart& part : p.checkpoint) {
    parts += (parts.empty() ? "saved " : ", ") + in_quotes(part.name);
    if (part.shape != value.type.shape || part.offset != 0) {
      parts += fmt::format(" {} +{}", part.shape.text(), format_exact(part.offset));
    }
  }
  if (!parts.empty()) append(out, parts);
  return out;
}

// --- lines in columns --------------------------------------------------------------------------

// A section's lines. Cells of value lines are aligned; other lines are as they are.
class Lines {
 public:
  enum Column : size_t {
    kLead,
    kArrow,
    kName,
    kType,
    kCategory,
    kScope,
    kWhere,
    kOffset,
    kTail,
    kColumns
  };
  using Cells = std::array<std::string, kColumns>;

  void plain(std::string text) { lines_.push_back({std::move(text), {}}); }
  void value(std::string_view indent, Cells cells) {
    lines_.push_back({std::string(indent), std::move(cells)});
  }

  void write(std::string& out) const {
    const auto widths = column_widths();
    for (const Line& line : lines_) {
      std::string text = line.indent;
      const size_t last = last_cell(line.cells);
      for (size_t c = 0; c < kColumns && c <= last; ++c) {
        if (widths[c] == 0 && line.cells[c].empty()) continue;
        text += c == kOffset ? fmt::format("{:>{}}", line.cells[c], widths[c])
                             : fmt::format("{:<{}}", line.cells[c], c == last ? 0 : widths[c]);
        if (c != last) text += c <= kArrow ? " " : "  ";
      }
      out += text + "\n";
    }
  }

 private:
  struct Line {
    std::string indent;  // or the whole line
    Cells cells;
  };

  static size_t last_cell(const Cells& cells) {
    size_t last = 0;
    for (size_t c = 0; c < kColumns; ++c) {
      if (!cells[c].empty()) last = c;
    }
    return last;
  }

  // A cell that ends its line may be as long as it likes.
  std::array<size_t, kColumns> column_widths() const {
    std::array<size_t, kColumns> widths{};
    for (const Line& line : lines_) {
      for (size_t c = 0, last = last_cell(line.cells); c < kColumns; ++c) {
        if (c < last || c == kOffset) widths[c] = std::max(widths[c], line.cells[c].size());
      }
    }
    return widths;
  }

  std::vector<Line> lines_;
};

// --- the module --------------------------------------------------------------------------------

class Printer {
 public:
  explicit Printer(const Module& module)
      : module_(module), declared_(module.values.size()), made_(module.values.size()) {
    for (const Program& program : module.programs) {
      for (const Op& op : program.ops) {
        for (ValueId id : op.outputs) mark(made_, id);
        mark(made_, op.workspace);
      }
    }
  }

  std::string run() {
    header();
    layers();
    shared();
    for (const Program& p : module_.programs) program(p);
    step();
    return std::move(out_);
  }

 private:
  bool known(ValueId id) const {
    return id.valid() && static_cast<size_t>(id.index) < module_.values.size();
  }
  void mark(std::vector<bool>& flags, ValueId id) const {
    if (known(id)) flags[static_cast<size_t>(id.index)] = true;
  }
  std::string ref(ValueId id) const { return known(id) ? "%" + word(module_[id].name) : "%?"; }

  void header() {
    out_ += fmt::format("module {} {}\n", in_quotes(module_.name), name_of(module_.level));
    for (size_t s = 0; s < kSpaces; ++s) {
      if (module_.arena_bytes[s] == 0) continue;
      out_ += fmt::format("arena {} {} bytes\n", name_of(static_cast<Space>(s)),
                          format_exact(module_.arena_bytes[s]));
    }
  }

  void layers() {
    if (module_.layers.empty()) return;
    out_ += "\nlayers\n";
    for (size_t i = 0; i < module_.layers.size(); ++i)
      out_ += fmt::format("  L{}  {}\n", i, word(module_.layers[i]));
  }

  void shared() {
    Lines lines;
    lines.plain("\nshared");
    bool any = false;
    for (size_t i = 0; i < module_.values.size(); ++i) {
      if (!module_.values[i].shared()) continue;
      declare_shared(lines, {static_cast<int32_t>(i)});
      any = true;
    }
    if (any) lines.write(out_);
  }

  // A value's base and its parameter are declared before it.
  void declare_shared(Lines& lines, ValueId id) {
    if (declared_[static_cast<size_t>(id.index)]) return;
    declared_[static_cast<size_t>(id.index)] = true;
    const Value& value = module_[id];
    for (const ValueId other : {value.base, value.parameter}) {
      if (known(other) && module_[other].shared()) declare_shared(lines, other);
    }
    lines.value("  ", cells("", id, kNoLayer, "of"));
  }

  void program(const Program& p) {
    out_ += fmt::format("\nprogram {}", word(p.name));
    if (p.role != ProgramRole::other) out_ += fmt::format("  role {}", name_of(p.role));
    if (p.micro_batches != 1) out_ += fmt::format("  micro-batches {}", p.micro_batches);
    out_ += "\n";
    Lines lines;
    const size_t digits = fmt::format("{}", p.ops.size()).size();
    for (size_t i = 0; i < p.ops.size(); ++i) {
      const Op& op = p.ops[i];
      if (i == 0 || op.phase != p.ops[i - 1].phase)
        lines.plain(fmt::format("  {}", name_of(op.phase)));
      const std::string indent(digits + 7, ' ');
      for (ValueId id : op.inputs) declare_local(lines, indent, id);
      declare_local(lines, indent, op.predicate);
      for (ValueId id : op.outputs) {
        if (known(id)) declare_local(lines, indent, module_[id].base);
      }
      lines.plain(fmt::format("  {:>{}}  {}", i, digits, head(op, digits + 9)));
      outputs(lines, indent, op);
    }
    lines.write(out_);
  }

  // Views, which no op makes, are declared before the first op that needs them.
  void declare_local(Lines& lines, std::string_view indent, ValueId id) {
    if (!known(id) || module_[id].shared() || made_[static_cast<size_t>(id.index)] ||
        declared_[static_cast<size_t>(id.index)])
      return;
    declared_[static_cast<size_t>(id.index)] = true;
    const bool view = module_[id].base.valid();
    if (view) declare_local(lines, indent, module_[id].base);
    lines.value(indent, cells(view ? "view" : "local", id, kNoLayer, "of"));
  }

  void outputs(Lines& lines, std::string_view indent, const Op& op) {
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (!known(op.outputs[o])) continue;
      const ValueId base = module_[op.outputs[o]].base;
      const bool writes = known(base) && module_[module_.root(base)].shared();
      const std::string_view port = o < op.def->outputs.size() ? op.def->outputs[o].name : "?";
      Lines::Cells made = cells(port, op.outputs[o], op.layer, writes ? "writes" : "in");
      made[Lines::kArrow] = "->";
      lines.value(indent, std::move(made));
    }
    if (known(op.workspace)) {
      lines.value(indent, cells("workspace", op.workspace, op.layer, "in"));
    }
  }

  std::string head(const Op& op, size_t indent) const {
    std::string line = inputs(op, fmt::format("{}: {}(", word(op.name), op.def->kind), indent);
    if (!op.attrs.empty()) {
      std::vector<std::string> items;
      for (const auto& [key, value] : op.attrs)
        items.push_back(fmt::format("{}={}", word(key), attribute(value)));
      line += fmt::format(" {{{}}}", fmt::join(items, ", "));
    }
    if (op.layer != kNoLayer) append(line, fmt::format("L{}", op.layer));
    if (op.micro_batch > 0) append(line, fmt::format("M{}", op.micro_batch));
    if (op.chunk > 0) append(line, fmt::format("C{}", op.chunk));
    if (op.lane != "compute") append(line, "on " + word(op.lane));
    if (op.predicate.valid()) append(line, "if " + ref(op.predicate));
    if (!op.after.empty()) {
      std::vector<std::string> names;
      for (const std::string& name : op.after) names.push_back(word(name));
      append(line, fmt::format("after ({})", fmt::join(names, ", ")));
    }
    if (!op.clone_of.empty()) append(line, "clone of " + word(op.clone_of));
    if (!op.backward_of.empty()) append(line, "backward of " + word(op.backward_of));
    return line;
  }

  // "x=%a, grads=[%b, %c])" after `line`, broken where it grows too long.
  std::string inputs(const Op& op, std::string line, size_t indent) const {
    size_t column = indent + line.size();
    std::string_view separator;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!op.inputs[i].valid()) continue;
      const Port& port = op.def->port_of_input(i);
      const bool first_of_rest = i + 1 == op.def->inputs.size();
      std::string item = ref(op.inputs[i]);
      if (!port.variadic() || first_of_rest)
        item = fmt::format("{}={}{}", port.name, port.variadic() ? "[" : "", item);
      if (port.variadic() && i + 1 == op.inputs.size()) item += "]";
      const bool wrap = !separator.empty() && column + 2 + item.size() > kWrap;
      line += separator;
      line += wrap ? "\n" + std::string(indent, ' ') : separator.empty() ? "" : " ";
      column = wrap ? indent + item.size() : column + 2 + item.size();
      line += item;
      separator = ",";
    }
    return line + ")";
  }

  Lines::Cells cells(std::string_view lead, ValueId id, int32_t usual_layer,
                     std::string_view relation) const {
    const Value& v = module_[id];
    Lines::Cells c;
    c[Lines::kLead] = lead;
    c[Lines::kName] = ref(id);
    c[Lines::kType] = v.type.text();
    c[Lines::kCategory] = name_of(v.category);
    if (v.shared()) c[Lines::kScope] = name_of(v.scope);
    if (v.live) c[Lines::kWhere] = fmt::format("live {}..{}", v.live->first, v.live->last);
    if (v.base.valid()) append(c[Lines::kWhere], base(v, relation));
    if (v.offset) c[Lines::kOffset] = "@" + format_exact(*v.offset);
    std::string& tail = c[Lines::kTail];
    if (v.space != Space::device) append(tail, name_of(v.space));
    if (v.padded.rank() > 0) append(tail, "padded " + v.padded.text());
    if (v.shard_of.rank() > 0)
      append(tail, fmt::format("shard {} +{}", v.shard_of.text(), format_exact(v.shard_first)));
    if (v.layer != usual_layer)
      append(tail, v.layer == kNoLayer ? "L-" : fmt::format("L{}", v.layer));
    if (v.param) append(tail, param_facts(v));
    if (v.parameter.valid()) append(tail, "for " + ref(v.parameter));
    return c;
  }

  std::string base(const Value& v, std::string_view relation) const {
    std::string out = fmt::format("{} {}", relation, ref(v.base));
    if (v.view_offset != 0) out += fmt::format(" +{}", format_exact(v.view_offset));
    return out;
  }

  void step() {
    if (module_.step.empty()) return;
    out_ += "\nstep\n";
    for (const Repeat& region : module_.step) {
      std::vector<std::string> names;
      for (const std::string& name : region.programs) names.push_back(word(name));
      const bool once = region.times == 1 && names.size() == 1;
      out_ += once ? fmt::format("  run {}\n", names[0])
                   : fmt::format("  repeat {} {{ {} }}\n", region.times, fmt::join(names, " "));
    }
  }

  const Module& module_;
  std::vector<bool> declared_;
  std::vector<bool> made_;
  std::string out_;
};

}  // namespace

std::string print(const Module& module) { return Printer(module).run(); }

}  // namespace snug
