#include "checkpoint/run_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/error.h"
#include "snug/set_option.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

RunManifest some_manifest() {
  RunManifest m{.run = "0123456789abcdef0123456789abcdef",
                .step = 123,
                .position = 4567,
                .skipped = 2,
                .bad = {64, 1024},
                .device = "NVIDIA H200",
                .data = {.tokens = 1 << 20, .checksum = checksum_text("data")}};
  m.asked.model = m.settled.model = "gpt2";
  m.asked.lr = m.settled.lr = 0.1;  // no binary fraction
  set_option(m.settled, "recompute", "full");
  m.pieces = {{"embed.weight", {Dtype::bf16, {50257, 768}}, checksum_text("a")},
              {"updates", {Dtype::i64, {}}, checksum_text("b")}};
  return m;
}

std::string why_not(const std::string& text) {
  try {
    parse_manifest(text, "there");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    return e.what();
  }
  return "taken";
}

// Two ranks: each has a shard of the first value, and the second has the other one.
RunManifest manifest_of_ranks() {
  RunManifest m = some_manifest();
  const SavedPiece whole = m.pieces[0];
  for (const int64_t rank : {0, 1}) {
    m.pieces[static_cast<size_t>(rank)] = whole;
    m.pieces[static_cast<size_t>(rank)].type.shape = Shape{whole.type.shape.elements() / 2};
    m.pieces[static_cast<size_t>(rank)].file = state_file(rank, 2);
    m.pieces[static_cast<size_t>(rank)].shard_of = whole.type.shape;
    m.pieces[static_cast<size_t>(rank)].first = rank * whole.type.shape.elements() / 2;
  }
  m.pieces.push_back(some_manifest().pieces[1]);
  m.pieces.back().file = state_file(1, 2);
  return m;
}

// Two ranks, each with one half of every row of the first value.
RunManifest manifest_of_parts() {
  RunManifest m = manifest_of_ranks();
  for (const int64_t rank : {0, 1}) {
    SavedPiece& piece = m.pieces[static_cast<size_t>(rank)];
    piece.first = 0;
    piece.boxes = {{.rows = 50257,
                    .width = 384,
                    .stride = 384,
                    .whole_first = rank * 384,
                    .whole_stride = 768}};
  }
  return m;
}

// With other content, and a checksum that fits it.
std::string changed(const std::function<void(nlohmann::ordered_json&)>& change,
                    const RunManifest& manifest = some_manifest()) {
  auto json = nlohmann::ordered_json::parse(manifest_text(manifest));
  change(json["manifest"]);
  json["xxh64"] = checksum_text(json["manifest"].dump());
  return json.dump();
}

TEST(RunManifest, WrittenManifestReadsBack) {
  const RunManifest m = some_manifest();
  const std::string text = manifest_text(m);
  const RunManifest read = parse_manifest(text, "there");
  EXPECT_EQ(manifest_text(read), text);
  EXPECT_EQ(read.bad, m.bad);
  EXPECT_EQ(read.pieces, m.pieces);
  EXPECT_EQ(read.data, m.data);
  EXPECT_EQ(read.settled.lr, 0.1);
  EXPECT_EQ(print_setting(read.settled.recompute), "full");
  EXPECT_EQ(print_setting(read.asked.recompute), "auto");
}

TEST(RunManifest, NoByteIsChangedUnseen) {
  const std::string text = manifest_text(some_manifest());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] ^= 1;
    if (why_not(other) != "taken") continue;
    EXPECT_EQ(nlohmann::json::parse(other), nlohmann::json::parse(text))
        << "between words, at " << at;
  }
  for (size_t end = 0; end + 1 < text.size(); ++end)
    EXPECT_THAT(why_not(text.substr(0, end)), HasSubstr("there is no manifest of a checkpoint"));
}

TEST(RunManifest, PartsOfAParameterHaveTheirBoxes) {
  using Json = nlohmann::ordered_json;
  const RunManifest m = manifest_of_parts();
  const RunManifest read = parse_manifest(manifest_text(m), "there");
  EXPECT_EQ(read.pieces, m.pieces);
  const auto with = [&](const std::function<void(Json&)>& change) {
    return why_not(changed([&](Json& json) { change(json["pieces"][1]["boxes"]); }, m));
  };
  EXPECT_EQ(with([](Json&) {}), "taken");
  EXPECT_THAT(with([](Json& boxes) { boxes[0][4] = 0; }), HasSubstr("elements are there"));
  EXPECT_THAT(with([](Json& boxes) { boxes[0][4] = 385; }), HasSubstr("a box is not inside"));
  EXPECT_THAT(with([](Json& boxes) { boxes[0][1] = 0; }), HasSubstr("a box is not inside"));
  EXPECT_THAT(with([](Json& boxes) { boxes[0].erase(5); }), HasSubstr("a box is not inside"));
  EXPECT_THAT(with([](Json& boxes) { boxes[0][0] = int64_t{1} << 62; }), HasSubstr("a box"));
  EXPECT_THAT(with([](Json& boxes) { boxes = 3; }), HasSubstr("a box is not inside"));
}

TEST(RunManifest, RefusesInvalidManifests) {
  using Json = nlohmann::ordered_json;
  EXPECT_THAT(why_not(changed([](Json& m) { m["version"] = 4; })), HasSubstr("it is of version 4"));
  EXPECT_THAT(why_not(changed([](Json& m) { m["format"] = "x"; })), HasSubstr("\"format\" is not"));
  EXPECT_THAT(why_not(changed([](Json& m) { m["step"] = -1; })),
              HasSubstr("\"step\" is not a count"));
  EXPECT_THAT(why_not(changed([](Json& m) { m["step"] = 1e300; })), HasSubstr("not a count"));
  EXPECT_THAT(why_not(changed([](Json& m) { m["bad"] = 3; })), HasSubstr("\"bad\" is not a list"));
  EXPECT_THAT(why_not(changed([](Json& m) { m.erase("run"); })), HasSubstr("there is no \"run\""));
  EXPECT_THAT(why_not(changed([](Json& m) { m["asked"]["magic"] = 1; })),
              HasSubstr("there is no option \"magic\""));
  EXPECT_THAT(why_not(changed([](Json& m) { m["asked"]["batch"] = "x"; })),
              HasSubstr("option \"batch\" has a value of another type"));
  EXPECT_THAT(why_not(changed([](Json& m) { m["pieces"].push_back(m["pieces"][0]); })),
              HasSubstr("piece embed.weight is there twice"));
  EXPECT_THAT(why_not(changed([](Json& m) {
                m["pieces"][0]["shape"] = {1LL << 40, 1LL << 40};
              })),
              HasSubstr("a piece"));
  EXPECT_THAT(why_not(changed([](Json& m) { m["pieces"][0]["dtype"] = "f7"; })), HasSubstr("f7"));
  EXPECT_THAT(why_not("[]"), HasSubstr("there is no \"manifest\""));
  EXPECT_THAT(why_not("{\"manifest\": [[[["), HasSubstr("parse error"));
}

TEST(RunManifest, ShardsReadBack) {
  const RunManifest m = manifest_of_ranks();
  EXPECT_EQ(m.pieces[1].file, "state-00001.safetensors");
  EXPECT_EQ(parse_manifest(manifest_text(m), "there").pieces, m.pieces);
  EXPECT_EQ(parse_pieces(pieces_text(m.pieces)), m.pieces);
  EXPECT_THAT(manifest_text(m), HasSubstr("\"version\": 2"));
}

TEST(RunManifest, IncompleteShardsAreRefused) {
  using Json = nlohmann::ordered_json;
  const auto why = [](const std::function<void(Json & pieces)>& change) {
    return why_not(changed([&](Json& m) { change(m["pieces"]); }, manifest_of_ranks()));
  };
  EXPECT_THAT(why([](Json& p) { p.erase(1); }),
              HasSubstr("of embed.weight, 19,298,688 of 38,597,376 elements are there"));
  EXPECT_THAT(why([](Json& p) { p.erase(0); }), HasSubstr("of embed.weight, 0 of"));
  EXPECT_THAT(why([](Json& p) { p.push_back(p[1]); }), HasSubstr("embed.weight is there twice"));
  EXPECT_THAT(why([](Json& p) { p[1]["of"] = {1LL << 40}; }), HasSubstr("is there twice"));
  EXPECT_THAT(why([](Json& p) { p[1]["first"] = 1LL << 40; }), HasSubstr("is no shard of"));
  EXPECT_THAT(why([](Json& p) { p[1]["first"] = -1; }), HasSubstr("not a count"));
  for (const char* file :
       {"../state-00001.safetensors", "state-1.safetensors", "/etc/passwd",
        "state-00001.safetensors.safetensors", "", "state-9223372036854775807.safetensors.x"})
    EXPECT_THAT(why([&](Json& p) { p[1]["file"] = file; }), HasSubstr("is no file of a rank"));
}

}  // namespace
}  // namespace snug
