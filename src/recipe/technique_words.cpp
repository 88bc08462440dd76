// The words of the techniques' options.
#include <algorithm>
#include <array>
#include <utility>

#include "recipe/option_checks.h"
#include "recipe/techniques.h"

namespace snug {
namespace {

template <typename T>
using Word = std::pair<const char*, T>;

constexpr std::array<Word<Dtype>, 3> kPrecisions{
    {{"fp32", Dtype::f32}, {"bf16", Dtype::bf16}, {"fp16", Dtype::f16}}};
constexpr std::array<Word<Dtype>, 2> kStateTypes{{{"fp32", Dtype::f32}, {"bf16", Dtype::bf16}}};
constexpr std::array<Word<bool>, 2> kMasters{{{"fp32", true}, {"none", false}}};
constexpr std::array<Word<CompressKind>, 2> kCompress{
    {{"none", CompressKind::none}, {"int8", CompressKind::int8}}};
constexpr std::array<Word<BaseKind>, 3> kBases{
    {{"auto", BaseKind::plain}, {"nf4", BaseKind::nf4}, {"int8", BaseKind::int8}}};
constexpr std::array<Word<OptimizerKind>, 5> kOptimizers{{{"adamw", OptimizerKind::adamw},
                                                          {"adamw8bit", OptimizerKind::adamw8bit},
                                                          {"adam-mini", OptimizerKind::adam_mini},
                                                          {"lion", OptimizerKind::lion},
                                                          {"sgd", OptimizerKind::sgd}}};

template <typename T, size_t N>
std::vector<std::string> words_in(const std::array<Word<T>, N>& table) {
  std::vector<std::string> words;
  for (const auto& [word, value] : table) words.emplace_back(word);
  return words;
}

template <typename T, size_t N>
T parse(const std::string& word, std::string_view option, const std::array<Word<T>, N>& table) {
  require_word(word, option, words_in(table));
  return std::ranges::find(table, word, &Word<T>::first)->second;
}

}  // namespace

std::vector<std::string> words_of(std::string_view option) {
  if (option == "precision") return words_in(kPrecisions);
  if (option == "master") return words_in(kMasters);
  if (option == "compress") return words_in(kCompress);
  if (option == "base-dtype") return words_in(kBases);
  if (option == "optimizer") return words_in(kOptimizers);
  if (option == "state-dtype") return words_in(kStateTypes);
  return {};
}

Dtype parse_precision(const std::string& word, std::string_view option) {
  return parse(word, option, kPrecisions);
}
OptimizerKind parse_optimizer(const std::string& word) {
  return parse(word, "optimizer", kOptimizers);
}
CompressKind parse_compress(const std::string& word) { return parse(word, "compress", kCompress); }
BaseKind parse_base(const std::string& word) { return parse(word, "base-dtype", kBases); }
bool parse_master(const std::string& word) { return parse(word, "master", kMasters); }
Dtype parse_state_dtype(const std::string& word) { return parse(word, "state-dtype", kStateTypes); }

}  // namespace snug
