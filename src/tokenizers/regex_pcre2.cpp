#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "base/text.h"
#include "tokenizers/regex.h"
#include "tokenizers/regex_pattern.h"

namespace snug {
namespace {

// Of one match: a pattern of words needs a few for each character; one that backtracks without end
// reaches this in about a second.
constexpr uint32_t kMostSteps = 20'000'000;
constexpr uint32_t kMostHeapKiB = 64 << 10;
constexpr size_t kJitStackBytes = size_t{8} << 20;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

// What a thread needs to match, whatever the pattern: it asks for the begin and end alone.
struct Matching {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
  JitStack stack{pcre2_jit_stack_create(32 << 10, kJitStackBytes, nullptr)};

  Matching() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), kMostSteps);
    pcre2_set_depth_limit(context.get(), kMostSteps);
    pcre2_set_heap_limit(context.get(), kMostHeapKiB);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

Matching& matching_here() {
  thread_local Matching matching;
  return matching;
}

std::string words_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

std::string version_of(uint32_t what) {
  std::array<char, 64> text{};
  pcre2_config(what, text.data());
  return text.data();
}

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> compiled;
};

bool has_regex() { return true; }
std::string_view regex_unicode_version() {
  static const std::string version = version_of(PCRE2_CONFIG_UNICODE_VERSION);
  return version;
}

Regex::Regex(std::string_view pattern, std::string_view where)
    : code_(std::make_unique<Code>()), where_(where) {
  const PcrePattern known = to_pcre(pattern, where);
  looks_behind_ = known.looks_behind;
  int error = 0;
  size_t at = 0;
  // Oniguruma's ^ and $ are those of lines.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  code_->compiled.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(known.text.data()),
                                      known.text.size(), kOptions, &error, &at, nullptr));
  if (!code_->compiled)
    throw bad_input("{}: the pattern {} is not understood: {}", where, printable(pattern),
                    words_of(error));
  pcre2_jit_compile(code_->compiled.get(), PCRE2_JIT_COMPLETE);  // slower without
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Range> Regex::find(std::string_view text, size_t from) const {
  Matching& here = matching_here();
  const int result =
      pcre2_match(code_->compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                  from, PCRE2_NO_UTF_CHECK, here.data.get(), here.context.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw bad_input("{}: its pattern takes too long at byte {} of a text: {}", where_, from,
                    words_of(result));
  }
  const size_t* ends = pcre2_get_ovector_pointer(here.data.get());
  return Range{ends[0], ends[1]};
}

}  // namespace snug
