// The machine that a pickle is written for: a stack, marks on it, and a memo. Every byte that it
// keeps is counted before it is kept.
#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/pickle.h"
#include "formats/pickle_bytes.h"
#include "formats/pickle_opcodes.h"

namespace snug {
namespace {

constexpr int64_t kAllocation = 16;             // what the heap adds to each block, about
constexpr uint64_t kTable = uint64_t{1} << 59;  // pickle.cpp: the integer is in a table
constexpr uint64_t kPayload = (uint64_t{1} << 60) - 1;

}  // namespace

class PickleReader {
 public:
  PickleReader(const std::filesystem::path& path, const PickleLimits& limits)
      : bytes_(path), limits_(limits) {
    pickle_.name_ = bytes_.name();
    pickle_.file_bytes_ = bytes_.left();
  }

  Pickle read() && {
    if (bytes_.left() == 0) throw bad_input("{} is empty", bytes_.name());
    while (step()) {
    }
    return std::move(pickle_);
  }

 private:
  template <typename... Args>
  Error broken(fmt::format_string<Args...> format, Args&&... args) const {
    return bad_input("{}: {} at byte {}", bytes_.name(),
                     fmt::format(format, std::forward<Args>(args)...), format_exact(op_at_));
  }

  // --- memory ------------------------------------------------------------------------------------

  void keep(int64_t bytes) {
    kept_ += bytes;
    if (kept_ <= limits_.memory) return;
    throw bad_input("{}: at byte {} of {} the pickle's data need more than {} of memory, the limit",
                    bytes_.name(), format_exact(bytes_.at()),
                    format_exact(bytes_.at() + bytes_.left()), format_bytes(limits_.memory))
        .hint(
            "record fewer events: torch.cuda.memory._record_memory_history(max_entries=1_000_000)");
  }
  // Room for `size` in all.
  template <typename T>
  void make_room(std::vector<T>& in, size_t size) {
    if (size <= in.capacity()) return;
    const size_t capacity = in.empty() ? size : std::max(size, 2 * in.capacity());
    keep(static_cast<int64_t>((capacity - in.capacity()) * sizeof(T)) + kAllocation);
    in.reserve(capacity);
  }
  void push(PickleValue value) {
    make_room(stack_, stack_.size() + 1);
    stack_.push_back(value);
  }
  PickleValue pop() {
    if (stack_.size() <= floor()) throw broken("the stack is empty");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue& top() {
    if (stack_.size() <= floor()) throw broken("the stack is empty");
    return stack_.back();
  }
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  // Where the values above the last mark begin; the mark is gone.
  size_t take_mark() {
    if (marks_.empty()) throw broken("there is no mark");
    const size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  // --- values ------------------------------------------------------------------------------------

  PickleValue text_value(PickleKind kind, std::string text) {
    const auto known = known_texts_.find(text);
    if (kind == PickleKind::text && known != known_texts_.end()) return {kind, known->second};
    keep(std::ssize(text) + static_cast<int64_t>(sizeof(std::string)) + kAllocation);
    pickle_.texts_.push_back(std::move(text));
    const uint64_t place = pickle_.texts_.size() - 1;
    if (kind == PickleKind::text) {
      keep(sizeof(std::string_view) + 4 * kAllocation);
      known_texts_.emplace(pickle_.texts_.back(), place);
    }
    return {kind, place};
  }
  PickleValue sized_text(PickleKind kind, uint64_t size) {
    bytes_.require(size);
    keep(static_cast<int64_t>(size));
    std::string text;
    bytes_.read(static_cast<int64_t>(size), text);
    kept_ -= static_cast<int64_t>(size);  // counted again where it stays
    return text_value(kind, std::move(text));
  }
  PickleValue integer_value(int64_t value) {
    constexpr int64_t kMost = int64_t{1} << 57;
    if (value >= -kMost && value < kMost)
      return {PickleKind::integer, static_cast<uint64_t>(value) & (kTable - 1)};
    keep(sizeof(int64_t) * 2);
    pickle_.integers_.push_back(value);
    return {PickleKind::integer, kTable | (pickle_.integers_.size() - 1)};
  }
  PickleValue real_value(double value) {
    keep(sizeof(double) * 2);
    pickle_.reals_.push_back(value);
    return {PickleKind::real, (pickle_.reals_.size() - 1) & kPayload};
  }
  // Two's complement, the least byte first.
  PickleValue long_value(uint64_t size) {
    bytes_.require(size);
    if (size > 9) throw broken("an integer of {} bytes is no size and no address", size);
    uint64_t value = 0;
    uint8_t last = 0;
    for (uint64_t i = 0; i < size; ++i) {
      last = bytes_.byte();
      if (i < 8) value |= static_cast<uint64_t>(last) << (8 * i);
    }
    if (size > 0 && size < 8 && (last & 0x80) != 0) value |= ~uint64_t{0} << (8 * size);
    // The ninth byte is a sign alone, and must repeat the eighth byte's.
    const uint8_t sign = static_cast<int64_t>(value) < 0 ? 0xff : 0;
    if (size == 9 && last != sign) throw broken("an integer needs more than 64 bits");
    return integer_value(static_cast<int64_t>(value));
  }
  PickleValue integer_line() {
    const std::string line = bytes_.line();
    if (line == "00" || line == "01") return {PickleKind::boolean, line == "01" ? 1U : 0U};
    std::string_view digits = trim(line);
    if (digits.ends_with('L')) digits.remove_suffix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      throw broken("'{}' is no integer of 64 bits", printable(line.substr(0, 40)));
    return integer_value(value);
  }
  PickleValue real_line() {
    const std::string line = bytes_.line();
    double value = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc() || end != line.data() + line.size())
      throw broken("'{}' is no number", printable(line.substr(0, 40)));
    return real_value(value);
  }
  PickleValue quoted_line() {
    const std::string line = bytes_.line();
    const std::string_view text = trim(line);
    if (text.size() < 2 || (text[0] != '\'' && text[0] != '"') || text.back() != text[0])
      throw broken("a string has no quotes around it");
    return text_value(PickleKind::text, unescaped_text(text.substr(1, text.size() - 2)));
  }

  // --- containers --------------------------------------------------------------------------------

  PickleValue container(PickleKind kind, std::span<const PickleValue> values = {}) {
    keep(sizeof(std::vector<PickleValue>));
    pickle_.containers_.emplace_back();
    const PickleValue made{kind, pickle_.containers_.size() - 1};
    add(made, values);
    return made;
  }
  void add(PickleValue to, std::span<const PickleValue> values) {
    if (values.empty()) return;
    std::vector<PickleValue>& items = pickle_.containers_[to.payload()];
    make_room(items, items.size() + values.size());
    items.insert(items.end(), values.begin(), values.end());
  }
  std::span<const PickleValue> above(size_t mark) const { return std::span(stack_).subspan(mark); }

  void container_of_marked(PickleKind kind) {
    const size_t mark = take_mark();
    if (kind == PickleKind::dict && above(mark).size() % 2 != 0)
      throw broken("a dict has a key without a value");
    const PickleValue made = container(kind, above(mark));
    stack_.resize(mark);
    push(made);
  }
  void tuple_of(size_t count) {
    if (stack_.size() < floor() + count) throw broken("the stack is empty");
    const size_t from = stack_.size() - count;
    const PickleValue made = container(PickleKind::tuple, above(from));
    stack_.resize(from);
    push(made);
  }
  // APPEND(S), SETITEM(S): what is above `from` goes into the container below it.
  void add_above(size_t from, PickleKind kind) {
    if (from <= floor()) throw broken("there is no container to add to");
    const PickleValue to = stack_[from - 1];
    if (!to.is(kind)) throw broken("{} is where {} should be", words_of(to.kind()), words_of(kind));
    if (kind == PickleKind::dict && above(from).size() % 2 != 0)
      throw broken("a dict has a key without a value");
    add(to, above(from));
    stack_.resize(from);
  }
  void add_last(size_t count, PickleKind kind) {
    if (stack_.size() < floor() + count + 1) throw broken("the stack is empty");
    add_above(stack_.size() - count, kind);
  }

  // --- the memo ----------------------------------------------------------------------------------

  // A file of n bytes has fewer than n objects.
  void put(uint64_t place) {
    if (place > static_cast<uint64_t>(op_at_) + 1) throw broken("the memo has no place {}", place);
    if (place >= memo_.size()) {
      make_room(memo_, place + 1);
      memo_.resize(place + 1);
    }
    memo_[place] = top();
  }
  void get(uint64_t place) {
    if (place >= memo_.size()) throw broken("the memo has nothing at {}", place);
    push(memo_[place]);
  }
  uint64_t place_line() {
    const std::string line = bytes_.line();
    uint64_t place = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), place);
    if (error != std::errc() || end == line.data())
      throw broken("'{}' is no place of the memo", printable(line.substr(0, 40)));
    return place;
  }

  // --- one opcode --------------------------------------------------------------------------------

  bool step() {
    op_at_ = bytes_.at();
    const uint8_t code = bytes_.byte();
    if (op_at_ == 0 && code == 'P' && bytes_.left() > 0 && bytes_.byte() == 'K')
      throw bad_input("{} is a zip archive, as torch.save writes, and no memory snapshot",
                      bytes_.name());
    if (const std::string_view name = refused_opcode(code); !name.empty())
      throw bad_input("{} holds {} at byte {}: it would make or run an object, and is refused",
                      bytes_.name(), name, format_exact(op_at_))
          .hint("a memory snapshot holds plain data alone; do not load this file in Python either");
    const auto op = static_cast<PickleOp>(code);
    return op == PickleOp::stop ? finish() : scalar(op) || structure(op) || unknown(code);
  }

  bool finish() {
    pickle_.root_ = pop();
    return false;
  }
  bool unknown(uint8_t code) const {
    throw bad_input("{} is no pickle: byte {} is 0x{:02x}, which is no opcode", bytes_.name(),
                    format_exact(op_at_), code)
        .hint("torch.cuda.memory._dump_snapshot(\"snapshot.pickle\") writes one");
  }

  // Opcodes that push one value.
  bool scalar(PickleOp op) {
    using enum PickleKind;
    switch (op) {
      case PickleOp::none:
        push({});
        return true;
      case PickleOp::newtrue:
        push({boolean, 1});
        return true;
      case PickleOp::newfalse:
        push({boolean, 0});
        return true;
      case PickleOp::binint:
        push(integer_value(bytes_.little<int32_t>()));
        return true;
      case PickleOp::binint1:
        push(integer_value(bytes_.byte()));
        return true;
      case PickleOp::binint2:
        push(integer_value(bytes_.little<uint16_t>()));
        return true;
      case PickleOp::long1:
        push(long_value(bytes_.byte()));
        return true;
      case PickleOp::long4:
        push(long_value(bytes_.little<uint32_t>()));
        return true;
      case PickleOp::int_text:
      case PickleOp::long_text:
        push(integer_line());
        return true;
      case PickleOp::float_text:
        push(real_line());
        return true;
      case PickleOp::binfloat:
        push(real_value(std::bit_cast<double>(__builtin_bswap64(bytes_.little<uint64_t>()))));
        return true;
      case PickleOp::string_text:
        push(quoted_line());
        return true;
      case PickleOp::unicode_text:
        push(text_value(text, unescaped_text(bytes_.line())));
        return true;
      case PickleOp::short_binstring:
      case PickleOp::short_binunicode:
        push(sized_text(text, bytes_.byte()));
        return true;
      case PickleOp::binstring:
      case PickleOp::binunicode:
        push(sized_text(text, bytes_.little<uint32_t>()));
        return true;
      case PickleOp::binunicode8:
        push(sized_text(text, bytes_.little<uint64_t>()));
        return true;
      case PickleOp::short_binbytes:
        push(sized_text(bytes, bytes_.byte()));
        return true;
      case PickleOp::binbytes:
        push(sized_text(bytes, bytes_.little<uint32_t>()));
        return true;
      case PickleOp::binbytes8:
      case PickleOp::bytearray8:
        push(sized_text(bytes, bytes_.little<uint64_t>()));
        return true;
      case PickleOp::empty_list:
        push(container(list));
        return true;
      case PickleOp::empty_tuple:
        push(container(tuple));
        return true;
      case PickleOp::empty_dict:
        push(container(dict));
        return true;
      case PickleOp::get_text:
        get(place_line());
        return true;
      case PickleOp::binget:
        get(bytes_.byte());
        return true;
      case PickleOp::long_binget:
        get(bytes_.little<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  // Opcodes that change what is on the stack, or nothing.
  bool structure(PickleOp op) {
    using enum PickleKind;
    switch (op) {
      case PickleOp::proto:
        protocol(bytes_.byte());
        return true;
      case PickleOp::frame:
        bytes_.require(bytes_.little<uint64_t>());
        return true;
      case PickleOp::mark:
        make_room(marks_, marks_.size() + 1);
        marks_.push_back(stack_.size());
        return true;
      case PickleOp::pop:
        pop_one();
        return true;
      case PickleOp::pop_mark:
        stack_.resize(take_mark());
        return true;
      case PickleOp::dup:
        push(top());
        return true;
      case PickleOp::tuple1:
        tuple_of(1);
        return true;
      case PickleOp::tuple2:
        tuple_of(2);
        return true;
      case PickleOp::tuple3:
        tuple_of(3);
        return true;
      case PickleOp::tuple:
        container_of_marked(tuple);
        return true;
      case PickleOp::list:
        container_of_marked(list);
        return true;
      case PickleOp::dict:
        container_of_marked(dict);
        return true;
      case PickleOp::append:
        add_last(1, list);
        return true;
      case PickleOp::appends:
        add_above(take_mark(), list);
        return true;
      case PickleOp::setitem:
        add_last(2, dict);
        return true;
      case PickleOp::setitems:
        add_above(take_mark(), dict);
        return true;
      case PickleOp::memoize:
        put(memo_.size());
        return true;
      case PickleOp::put_text:
        put(place_line());
        return true;
      case PickleOp::binput:
        put(bytes_.byte());
        return true;
      case PickleOp::long_binput:
        put(bytes_.little<uint32_t>());
        return true;
      default:
        return false;
    }
  }
  void protocol(int number) const {
    if (number <= 5) return;
    throw broken("pickle protocol {} is newer than 5", number);
  }
  void pop_one() {
    if (!marks_.empty() && stack_.size() == marks_.back()) {
      marks_.pop_back();
    } else {
      pop();
    }
  }

  PickleBytes bytes_;
  const PickleLimits limits_;
  Pickle pickle_;
  std::vector<PickleValue> stack_, memo_;
  std::vector<size_t> marks_;
  std::unordered_map<std::string_view, uint64_t> known_texts_;
  int64_t op_at_ = 0;
  int64_t kept_ = 0;
};

Pickle read_pickle(const std::filesystem::path& path, const PickleLimits& limits) {
  return PickleReader(path, limits).read();
}

}  // namespace snug
