#include <algorithm>

#include "base/text.h"
#include "ir/scanner.h"
#include "ir/text.h"
#include "ir/value_reader.h"

namespace snug {
namespace {

class Parser {
 public:
  Parser(std::string_view text, Registry registry) : scan_(text), registry_(registry) {}

  Module run() {
    scan_.at_end();
    header();
    while (!scan_.at_end()) section();
    return std::move(module_);
  }

 private:
  void header() {
    if (!scan_.accept_word("module")) throw scan_.expected("'module'");
    module_.name = scan_.quoted("the module's name in quotes");
    module_.level = enumerator<Level>(scan_, "a level: graph, step or placed", 3);
    scan_.end_line();
  }

  void section() {
    if (scan_.accept_word("arena")) {
      const auto space = enumerator<Space>(scan_, "a space: device, host or disk", kSpaces);
      module_.arena_bytes[static_cast<size_t>(space)] = scan_.grouped("a number of bytes");
      if (!scan_.accept_word("bytes")) throw scan_.expected("'bytes'");
      scan_.end_line();
    } else if (scan_.accept_word("layers")) {
      scan_.end_line();
      while (layer()) continue;
    } else if (scan_.accept_word("shared")) {
      scan_.end_line();
      while (scan_.next_is('%')) values_.read(Scope::step, kNoLayer);
    } else if (scan_.accept_word("program")) {
      program();
    } else if (scan_.accept_word("step")) {
      scan_.end_line();
      while (step_region()) continue;
    } else {
      throw scan_.expected("'arena', 'layers', 'shared', 'program' or 'step'");
    }
  }

  // "L3  h.3"; false at the start of the next section.
  bool layer() {
    int32_t number = kNoLayer;
    const std::string_view word = scan_.peek_word();
    if (!parse_layer(word, number)) return false;
    if (number != static_cast<int32_t>(module_.layers.size()))
      throw scan_.wrong(fmt::format("expected layer {}", module_.layers.size()));
    scan_.accept_word(word);
    module_.layers.push_back(scan_.name("the prefix of a layer's names"));
    scan_.end_line();
    return true;
  }

  void program() {
    const std::string name = scan_.name("a program's name");
    if (module_.program_index(name) >= 0)
      throw scan_.wrong(fmt::format("there is a program '{}' already", name));
    ProgramRole role = ProgramRole::other;
    if (scan_.accept_word("role"))
      role = enumerator<ProgramRole>(scan_, "a program's role", kProgramRoles);
    int64_t micro_batches = 1;
    if (scan_.accept_word("micro-batches"))
      micro_batches = scan_.integer("a number of micro-batches");
    scan_.end_line();
    module_.programs.push_back({name, {}, role, micro_batches});
    values_.forget_locals();
    phase_ = Phase::forward;
    while (!scan_.at_end() && statement()) continue;
  }
  std::vector<Op>& ops() { return module_.programs.back().ops; }

  // False at the start of the next section.
  bool statement() {
    const std::string_view word = scan_.peek_word();
    if (!word.empty() && word[0] >= '0' && word[0] <= '9') return op(), true;
    if (output()) return true;
    if (scan_.accept_word("view") || scan_.accept_word("local"))
      return values_.read(Scope::local, kNoLayer), true;
    if (scan_.accept_word("workspace")) {
      if (ops().empty()) throw scan_.wrong("a workspace comes before the first op");
      ops().back().workspace = values_.read(Scope::local, ops().back().layer);
      return true;
    }
    if (const auto phase = find_enum<Phase>(word, 3)) {
      phase_ = *phase;
      scan_.accept_word(word);
      scan_.end_line();
      return true;
    }
    return false;
  }

  // "port -> %value ...", in the order of the ports.
  bool output() {
    const size_t mark = scan_.mark();
    const std::string_view port = scan_.peek_word();
    if (port.empty() || !scan_.accept_word(port) || !scan_.accept("->"))
      return scan_.rewind(mark), false;
    if (ops().empty()) throw scan_.wrong("an output comes before the first op");
    const OpDef& def = *ops().back().def;
    const size_t at = ops().back().outputs.size();
    if (at >= def.outputs.size() || def.outputs[at].name != port) {
      throw scan_.wrong(fmt::format("'{}' is not the next output of {}", port, def.kind));
    }
    const ValueId made = values_.read(Scope::local, ops().back().layer);
    ops().back().outputs.push_back(made);
    return true;
  }

  void op() {
    if (scan_.integer("an op's number") != static_cast<int64_t>(ops().size())) {
      throw scan_.wrong(fmt::format("expected op number {}", ops().size()));
    }
    Op op;
    op.phase = phase_;
    op.name = scan_.name("an op's name");
    scan_.expect(":");
    op.def = definition();
    inputs(op);
    if (scan_.accept("{")) attributes(op);
    while (!scan_.at_line_end()) op_fact(op);
    scan_.end_line();
    ops().push_back(std::move(op));
  }

  const OpDef* definition() {
    const std::string_view kind = scan_.word("an op kind");
    if (const OpDef* def = find_op(registry_, kind)) return def;
    std::vector<std::string> kinds;
    for (const OpDef* def : registry_) kinds.emplace_back(def->kind);
    throw scan_.wrong(fmt::format("there is no op '{}'{}", kind, did_you_mean(kind, kinds)));
  }

  void inputs(Op& op) {
    const auto& ports = op.def->inputs;
    const bool takes_rest = !ports.empty() && ports.back().variadic();
    op.inputs.resize(ports.size() - (takes_rest ? 1 : 0));
    scan_.expect("(");
    scan_.open_bracket();
    for (bool first = true; !scan_.accept(")"); first = false) {
      if (!first) scan_.expect(",");
      const std::string_view name = scan_.word("an input's name");
      const auto port = std::ranges::find(ports, name, &Port::name);
      if (port == ports.end())
        throw scan_.wrong(fmt::format("{} has no input '{}'", op.def->kind, name));
      scan_.expect("=");
      if (port->variadic()) {
        rest(op);
      } else {
        op.inputs[static_cast<size_t>(port - ports.begin())] = values_.lookup();
      }
    }
    scan_.close_bracket();
  }

  void rest(Op& op) {
    scan_.expect("[");
    for (bool first = true; !scan_.accept("]"); first = false) {
      if (!first) scan_.expect(",");
      op.inputs.push_back(values_.lookup());
    }
  }

  void attributes(Op& op) {
    for (bool first = true; !scan_.accept("}"); first = false) {
      if (!first) scan_.expect(",");
      std::string key = scan_.name("an attribute's name");
      scan_.expect("=");
      op.attrs.set(std::move(key), attribute());
    }
  }

  AttrValue attribute() {
    if (scan_.next_is('"')) return scan_.quoted("text");
    if (scan_.accept_word("true")) return true;
    if (scan_.accept_word("false")) return false;
    const std::string_view text = scan_.peek_word();
    if (text.find_first_not_of("-0123456789") == std::string_view::npos)
      return scan_.integer("a number");
    return scan_.real("a number, true, false or text in quotes");
  }

  void op_fact(Op& op) {
    const size_t mark = scan_.mark();
    const std::string_view word = scan_.word("a fact about the op");
    if (parse_layer(word, op.layer) || parse_numbered('M', word, op.micro_batch) ||
        parse_numbered('C', word, op.chunk))
      return;
    if (word == "on") {
      op.lane = scan_.name("a lane");
    } else if (word == "if") {
      op.predicate = values_.lookup();
    } else if (word == "after") {
      scan_.expect("(");
      do op.after.push_back(scan_.name("an op's name"));
      while (scan_.accept(","));
      scan_.expect(")");
    } else if (word == "clone" && scan_.accept_word("of")) {
      op.clone_of = scan_.name("an op's name");
    } else if (word == "backward" && scan_.accept_word("of")) {
      op.backward_of = scan_.name("an op's name");
    } else {
      scan_.rewind(mark);
      throw scan_.expected("a fact about the op");
    }
  }

  bool step_region() {
    Repeat region;
    if (scan_.accept_word("run")) {
      region.programs.push_back(scan_.name("a program's name"));
    } else if (scan_.accept_word("repeat")) {
      region.times = scan_.integer("how many times");
      scan_.expect("{");
      while (!scan_.accept("}")) region.programs.push_back(scan_.name("a program's name"));
    } else {
      return false;
    }
    scan_.end_line();
    module_.step.push_back(std::move(region));
    return true;
  }

  Scanner scan_;
  Registry registry_;
  Module module_;
  ValueReader values_{scan_, module_};
  Phase phase_ = Phase::forward;
};

}  // namespace

Module parse(std::string_view text, Registry registry) { return Parser(text, registry).run(); }

}  // namespace snug
