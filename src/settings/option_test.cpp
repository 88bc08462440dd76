#include "settings/option.h"
#include "settings/parse.h"
#include "snug/set_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace snug {
namespace {

using Rng = std::mt19937_64;

int64_t number(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}
std::string one_of(Rng& rng, const std::vector<std::string>& words) {
  return words[static_cast<size_t>(number(rng, 0, static_cast<int64_t>(words.size()) - 1))];
}
std::string layers(Rng& rng) {
  const int64_t first = number(rng, 0, 20);
  return fmt::format("{}-{}+{}", first, first + number(rng, 1, 5), first + 9);
}
std::string chunked(Rng& rng, const char* other) {
  return one_of(rng, {"auto", other, "chunked", fmt::format("chunked:{}", number(rng, 1, 9999))});
}
std::string bytes(Rng& rng) {
  return one_of(rng, {"", fmt::format("{}GiB", number(rng, 1, 99)), "24.5GB",
                      fmt::format("{}", number(rng, 0, int64_t{1} << 50)), "80GB", "0.3TiB"});
}
std::string time(Rng& rng) {
  return one_of(rng, {"", fmt::format("{}s", number(rng, 1, 5000)), "90min", "2.5h"});
}
std::string offload(Rng& rng) {
  const std::string at = "@" + layers(rng);
  return one_of(rng,
                {"auto", "none", "all", "all=disk", "optimizer,master", "params" + at + "=disk",
                 "optimizer,optimizer" + at + "=disk,grads", "activations" + at});
}
std::string recompute(Rng& rng) {
  return one_of(
      rng, {"auto", "none", "full", "sqrt", "attention", fmt::format("every:{}", number(rng, 1, 9)),
            fmt::format("ratio:{}", static_cast<double>(number(rng, 0, 1000)) / 1000),
            "list:0,3,5-7", "layers:0-8=attn.norm+mlp.act,9=full,10-13=every:2",
            fmt::format("auto:{}", number(rng, 1, int64_t{1} << 40)), "auto:24GiB"});
}

// Texts of options that are neither words nor numbers nor names.
const std::map<std::string_view, std::string (*)(Rng&)>& grammars() {
  static const std::map<std::string_view, std::string (*)(Rng&)> all{
      {"micro-order",
       [](Rng& r) {
         return one_of(
             r, {"auto", "horizontal", "vertical", fmt::format("groups:{}", number(r, 1, 64))});
       }},
      {"attention",
       [](Rng& r) {
         return one_of(r, {chunked(r, "flash"), chunked(r, "standard")});
       }},
      {"loss", [](Rng& r) { return chunked(r, "whole"); }},
      {"recompute", recompute},
      {"offload", offload},
      {"host-update",
       [](Rng& r) {
         return one_of(r, {"auto", "none", "all", layers(r)});
       }},
      {"mesh",
       [](Rng& r) {
         return one_of(r, {"", "pp=2", "tp=8,dp=4",
                           fmt::format("pp={},dp={},tp={}", number(r, 1, 9), number(r, 1, 9),
                                       number(r, 1, 9))});
       }},
      {"pp-schedule",
       [](Rng& r) {
         return one_of(
             r, {"auto", "1f1b", "zero-bubble", fmt::format("interleaved:{}", number(r, 2, 99))});
       }},
      {"shard",
       [](Rng& r) {
         return one_of(r,
                       {"", "none", "grad-op", "full", fmt::format("hybrid:{}", number(r, 2, 99))});
       }},
      {"lora",
       [](Rng& r) {
         return one_of(r, {"none", "r=8", fmt::format("r={},alpha=0.5", number(r, 1, 512)),
                           "targets=q_proj+v_proj,dropout=0.05", "targets=qkvo"});
       }},
      {"loss-scale",
       [](Rng& r) {
         return one_of(r, {"auto", "none", "dynamic", "dynamic:1024",
                           fmt::format("{}", number(r, 1, 1 << 20))});
       }},
      {"budget", bytes},
      {"host-budget", bytes},
      {"disk-budget", bytes},
      {"allow",
       [](Rng& r) {
         return one_of(r, {"", "all", "compress,precision", "base", "optimizer"});
       }},
      {"save-every",
       [](Rng& r) {
         return one_of(r, {fmt::format("{}", number(r, 1, 999)), time(r)});
       }},
      {"on-nan",
       [](Rng& r) {
         return one_of(r,
                       {"stop", "skip", "rollback", fmt::format("rollback:{}", number(r, 1, 9))});
       }},
      {"grace", time}};
  return all;
}

std::string drawn(const Option& option, Rng& rng) {
  const double real = std::ldexp(static_cast<double>(number(rng, -(1 << 20), 1 << 20)),
                                 static_cast<int>(number(rng, -40, 20)));
  switch (option.kind) {
    case ValueKind::flag:
      return number(rng, 0, 1) == 0 ? "false" : "true";
    case ValueKind::whole:
      return fmt::format("{}", number(rng, INT64_MIN, INT64_MAX));
    case ValueKind::number:
      return fmt::format("{}", real);
    case ValueKind::text:
      break;
  }
  if (const auto found = grammars().find(option.key); found != grammars().end())
    return found->second(rng);
  if (!option.words.empty()) return one_of(rng, option.words);
  return one_of(rng, {"", "a/b c", "x=1,y:2", "\"quoted\"\n"});
}

TEST(Options, PrintedValuesReadBack) {
  Rng rng(20261119);
  for (int i = 0; i < 2000; ++i) {
    Options settings, again;
    for (const Option& option : all_options()) {
      const std::string text = drawn(option, rng);
      SCOPED_TRACE(fmt::format("--{} '{}'", option.key, text));
      ASSERT_NO_THROW(parse_option(option, settings, text));
      ASSERT_NO_THROW(parse_option(option, again, option.text(settings)));
      ASSERT_TRUE(option.same(settings, again)) << option.text(settings);
      ASSERT_EQ(option.text(again), option.text(settings));
    }
  }
}

// A structured setting that is drawn from names would only be read back where it is a word.
TEST(Options, StructuredOptionsHaveGrammars) {
  const std::set<std::string_view> names{"offload-dir", "gpu",        "data", "cache",
                                         "eval-data",   "adapter",    "out",  "resume",
                                         "profile-dir", "tensorboard"};
  for (const Option& option : all_options()) {
    if (option.kind != ValueKind::text || !option.words.empty()) continue;
    EXPECT_NE(names.contains(option.key), grammars().contains(option.key)) << option.key;
  }
}

// Every member is an option but `model`, which comes first, and `given`, which comes last.
TEST(Options, AreAllInTheTable) {
  std::vector<const Option*> rows;
  for (const Option& option : all_options()) rows.push_back(&option);
  std::ranges::sort(rows, {}, &Option::offset);
  size_t end = sizeof(std::string);  // Options::model
  for (const Option* row : rows) {
    EXPECT_LT(row->offset - end, alignof(std::max_align_t))
        << "a member in front of --" << row->key << " has no row";
    end = row->offset + row->size;
  }
  EXPECT_LT(offset_of(&Options::given) - end, alignof(std::max_align_t));
}

TEST(Options, HaveNamesOfTheirOwn) {
  std::set<std::string_view> keys;
  for (const Option& option : all_options()) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
    EXPECT_EQ(find_option(option.key), &option);
    EXPECT_FALSE(option.help.empty()) << option.key;
  }
  EXPECT_EQ(&option_of(&Options::recompute), find_option("recompute"));
  EXPECT_EQ(find_option("recomputed"), nullptr);
}

TEST(Options, AreRefusedByName) {
  Options o;
  const auto why = [&](std::string_view key, std::string_view value) {
    try {
      set_option(o, key, value);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(why("precison", "bf16"), ::testing::HasSubstr("precision"));
  EXPECT_EQ(why("batch", "8x"), "--batch '8x' is not a whole number");
  EXPECT_THAT(why("optimizer", "adam"), ::testing::HasSubstr("--optimizer 'adam' is not one of"));
  EXPECT_THAT(why("budget", "lots"), ::testing::HasSubstr("--budget 'lots' is not an amount"));
  EXPECT_EQ(why("budget", "24GiB"), "taken");
  EXPECT_EQ(option_text(o, "budget"), "24GiB");
}

}  // namespace
}  // namespace snug
