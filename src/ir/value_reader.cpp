#include "ir/value_reader.h"

#include <limits>

namespace snug {
namespace {

constexpr int kDtypes = 8;
constexpr int kScopes = 3;
constexpr int kRoles = 7;

}  // namespace

bool parse_layer(std::string_view word, int32_t& out) {
  if (word == "L-") {
    out = kNoLayer;
    return true;
  }
  return parse_numbered('L', word, out);
}

bool parse_numbered(char letter, std::string_view word, int32_t& out) {
  if (word.size() < 2 || word[0] != letter) return false;
  int32_t number = 0;
  for (char c : word.substr(1)) {
    if (c < '0' || c > '9' || number > 99'999'999) return false;
    number = number * 10 + (c - '0');
  }
  out = number;
  return true;
}

ValueId ValueReader::lookup() {
  scan_.expect("%");
  const std::string name = scan_.name("a value's name");
  for (const Names* names : {&locals_, &shared_}) {
    if (const auto found = names->find(name); found != names->end()) return found->second;
  }
  throw scan_.wrong(fmt::format("no value '{}' is declared above", name));
}

ValueId ValueReader::read(Scope scope, int32_t layer) {
  const bool local = scope == Scope::local;
  Value value;
  value.scope = scope;
  value.layer = layer;
  if (local) value.program = static_cast<int32_t>(module_.programs.size()) - 1;
  scan_.expect("%");
  value.name = scan_.name("a value's name");
  if (locals_.contains(value.name) || shared_.contains(value.name)) {
    throw scan_.wrong(fmt::format("there is a value '{}' already", value.name));
  }
  value.type.dtype = enumerator<Dtype>(scan_, "a dtype", kDtypes);
  value.type.shape = shape();
  value.category = enumerator<Category>(scan_, "a category", kCategories);
  while (!scan_.at_line_end()) fact(value);
  if (value.shared() == local) {
    throw scan_.wrong(fmt::format("'{}' cannot be {} here", value.name, name_of(value.scope)));
  }
  scan_.end_line();
  std::string name = value.name;
  const ValueId id = module_.add(std::move(value));
  (local ? locals_ : shared_).emplace(std::move(name), id);
  return id;
}

void ValueReader::fact(Value& value) {
  if (scan_.accept("@")) {
    value.offset = scan_.grouped("an offset in bytes");
    return;
  }
  const size_t mark = scan_.mark();
  const std::string_view word = scan_.word("a fact about the value");
  if (place_fact(value, word) || param_fact(value, word)) return;
  scan_.rewind(mark);
  throw scan_.expected("a fact about the value");
}

bool ValueReader::place_fact(Value& value, std::string_view word) {
  if (word == "live") {
    Lifetime live;
    live.first = op_number("the first op");
    scan_.expect("..");
    live.last = op_number("the last op");
    value.live = live;
  } else if (word == "in" || word == "of" || word == "writes") {
    value.base = lookup();
    if (scan_.accept("+")) value.view_offset = scan_.grouped("a number of elements");
  } else if (word == "for") {
    value.parameter = lookup();
  } else if (word == "padded") {
    value.padded = shape();
  } else if (word == "shard") {
    value.shard_of = shape();
    scan_.expect("+");
    value.shard_first = scan_.grouped("a number of elements");
  } else if (const auto space = find_enum<Space>(word, kSpaces)) {
    value.space = *space;
  } else if (const auto scope = find_enum<Scope>(word, kScopes)) {
    value.scope = *scope;
  } else {
    return parse_layer(word, value.layer);
  }
  return true;
}

bool ValueReader::param_fact(Value& value, std::string_view word) {
  Param param = value.param ? *value.param : Param{};
  if (word == "init") {
    param.init = init();
  } else if (word == "role") {
    param.role = enumerator<Role>(scan_, "a role", kRoles);
  } else if (word == "in_out") {
    param.in_out = true;
  } else if (word == "heads") {
    param.heads = scan_.integer("a number of heads");
  } else if (word == "value_heads") {
    param.value_heads = scan_.integer("a number of heads");
  } else if (word == "frozen") {
    param.trainable = false;
  } else if (word == "adapter") {
    param.adapter = true;
  } else if (word == "stored") {
    param.stored = enumerator<Stored>(scan_, "a way of storing", kStoredKinds);
  } else if (word == "saved") {
    do {
      param.checkpoint.push_back(checkpoint_part(value));
    } while (scan_.accept(","));
  } else {
    return false;
  }
  value.param = std::make_shared<const Param>(std::move(param));
  return true;
}

Shape ValueReader::shape() {
  std::vector<int64_t> dims;
  scan_.expect("[");
  while (!scan_.accept("]")) {
    if (!dims.empty()) scan_.expect(",");
    dims.push_back(scan_.integer("a dimension"));
    if (dims.back() < 0) throw scan_.wrong("a dimension is negative");
    if (dims.size() > Shape::kMaxRank) {
      throw scan_.wrong(fmt::format("a shape has more than {} dimensions", Shape::kMaxRank));
    }
  }
  return Shape(dims);
}

Init ValueReader::init() {
  if (scan_.accept_word("zeros")) return {};
  Init init{.kind = Init::Kind::constant};
  if (!scan_.accept_word("constant")) {
    init.kind = Init::Kind::normal;
    if (!scan_.accept_word("normal")) throw scan_.expected("'zeros', 'constant' or 'normal'");
  }
  scan_.expect("(");
  init.value = scan_.real("a number");
  scan_.expect(")");
  return init;
}

CheckpointPart ValueReader::checkpoint_part(const Value& value) {
  CheckpointPart part{scan_.quoted("a checkpoint name in quotes"), value.type.shape, 0};
  if (!scan_.next_is('[')) return part;
  part.shape = shape();
  scan_.expect("+");
  part.offset = scan_.grouped("a number of elements");
  return part;
}

int32_t ValueReader::op_number(std::string_view what) {
  const int64_t found = scan_.integer(what);
  if (found < -1 || found > std::numeric_limits<int32_t>::max()) {
    throw scan_.wrong(fmt::format("{} is no op's number", found));
  }
  return static_cast<int32_t>(found);
}

}  // namespace snug
