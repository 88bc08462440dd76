// The one description of every option: its words, its help, which verbs take it, what --resume may do with it,
// how files show it. The command line, run.toml, manifests, the page and documents are all made from these rows.
//
//   for (const Option& option : all_options())
//     out += fmt::format("--{} {}\n", option.key, option.text(options));
//   option_of(&Options::recompute).key;    // "recompute"
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "snug/options.h"

namespace snug {

// How its value is written in JSON and TOML.
enum class ValueKind : uint8_t { flag, whole, number, text };

// Verbs that take an option.
enum class Verbs : uint8_t {
  plan = 1,
  train = 2,
  eval = 4,
  sample = 8,
  doctor = 16,
  runs = plan | train
};
constexpr Verbs operator|(Verbs a, Verbs b) {
  return static_cast<Verbs>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

// What --resume does with an option that is given again.
enum class OnResume : uint8_t {
  refuses,  // it changes what is learned: --resume-changed is needed
  exact,    // how a step is computed, to the same bits: chosen anew where one of these is given
  limit,    // the same; what the plan has to stay within
  mesh,     // how ranks share the work: sums are rounded in another order
  free      // what is done next to the steps
};

// Further facts of an option. The defaults are those of most.
struct OptionTraits {
  Verbs verbs = Verbs::runs;
  OnResume on_resume = OnResume::refuses;
  bool settled = false;  // chosen by the search, or follows from others: in [settled] of run.toml
  bool of_host = false;  // may differ from host to host

  bool is_for(Verbs verb) const {
    return (static_cast<uint8_t>(verbs) & static_cast<uint8_t>(verb)) != 0;
  }
};

struct Option : OptionTraits {
  std::string_view key, help;
  ValueKind kind = ValueKind::text;
  std::vector<std::string> words = {};  // that it can be set to; empty: no fixed list
  size_t offset = 0, size = 0;          // of the member, which tells options apart

  std::function<std::string(const Options&)> text;
  std::function<bool*(Options&)> flag;  // of ValueKind::flag: where it is
  std::function<bool(const Options&, const Options&)> same;
  std::function<void(const Options& from, Options& to)> copy;

  // A value of the member's type, on its own (settings/change.h).
  std::function<void(Options&, const std::any&)> assign;
  std::function<std::string(const std::any&)> text_of;
  std::function<bool(const std::any&, const std::any&)> equal;

 private:
  friend struct SettingReader;  // settings/parse.h
  friend struct OptionMaker;    // settings/option_row.h
  std::function<void(Options&, std::string_view)> parse_;
};

// A value as JSON and TOML have it.
using PlainValue = std::variant<bool, int64_t, double, std::string>;
PlainValue plain_value(const Option& option, const Options& options);

// Every option but MODEL, in the order of help and documents.
std::span<const Option> all_options();
// By name; none where there is no such option.
const Option* find_option(std::string_view key);

const Option& option_at(size_t offset);
template <typename T>
size_t offset_of(T Options::*member) {
  static const Options probe;
  return static_cast<size_t>(reinterpret_cast<const char*>(&(probe.*member)) -
                             reinterpret_cast<const char*>(&probe));
}
template <typename T>
const Option& option_of(T Options::*member) {
  return option_at(offset_of(member));
}

// Was it given, by name?
bool is_given(const Options& options, std::string_view key);

}  // namespace snug
