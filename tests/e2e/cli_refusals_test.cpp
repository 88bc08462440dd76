// Bad input at the command line: one clear sentence, the right exit code, nothing half-written.
#include <sys/stat.h>

#include "base/units.h"
#include "cli_fixture.h"

namespace snug {
namespace {

class CliRefusals : public Cli {
 protected:
  void write_config(const std::string& key, const nlohmann::json& value) {
    nlohmann::json config = tiny_config();
    config[key] = value;
    write("bad/config.json", config.dump());
  }
  void expect_bad_field(const std::string& key, const nlohmann::json& value,
                        const std::string& part) {
    write_config(key, value);
    expect_refused("plan bad", kBadInput, part);
  }
};

TEST_F(CliRefusals, Verbs) {
  expect_refused("trian tiny", kUsage, "there is no verb 'trian' - did you mean 'train'?");
  expect_refused("--verbose", kUsage, "there is no verb '--verbose'");
}

TEST_F(CliRefusals, NoVerbShowsTheHelp) {
  const Ended run = run_snug({});
  EXPECT_EQ(run.code, static_cast<int>(kUsage));
  EXPECT_THAT(run.out, ::testing::HasSubstr("usage: snug VERB MODEL"));
}

TEST_F(CliRefusals, Models) {
  expect_refused("train", kUsage, "snug train needs a MODEL");
  expect_refused("plan gtp2", kUsage, "there is no model 'gtp2' - did you mean 'gpt2'?");
  for (const std::string name : {"qwen3-8b", "mixtral-8x7b", "albert-base", "gpt3"}) {
    EXPECT_THAT(snug("plan " + name).err, ::testing::Not(::testing::HasSubstr("did you mean")));
  }
  expect_refused("plan Qwen/Qwen2.5-7B", kBadInput, "cannot read Qwen/Qwen2.5-7B: No such file",
                 "huggingface-cli download Qwen/Qwen2.5-7B --local-dir Qwen2.5-7B");
  expect_refused("plan no/where", kBadInput, "cannot read no/where");
  expect_refused("plan mlp:0x3", kUsage, "'mlp:0x3' is not an MLP");
  expect_refused("plan tiny other", kUsage, "there is no model 'other'");
  expect_refused("train tiny other", kUsage, "does not know what to do with 'other'");
  expect_refused("models other", kUsage, "does not know what to do with 'other'");
}

TEST_F(CliRefusals, PackingWithoutCausalMask) {
  expect_refused("plan bert-base --pack", kUsage,
                 "model 'bert-base' (bert) lets every token see the whole row", "leave --pack out");
  expect_refused("plan mlp:64x2 --pack", kUsage, "takes features, not tokens", "leave --pack out");
}

TEST_F(CliRefusals, MissingOrDamagedConfigJson) {
  std::filesystem::create_directory(dir_ / "bad");
  expect_refused("plan bad", kBadInput, "bad has no config.json");
  expect_refused("plan bad/config.json", kBadInput, "cannot read bad/config.json");
  write("bad/config.json", "");
  expect_refused("plan bad", kBadInput, "bad/config.json is not valid JSON");
  write("bad/config.json", R"({"model_type": "llama", "hidd)");
  expect_refused("train bad", kBadInput, "bad/config.json is not valid JSON");
  write("bad/config.json", R"(["llama"])");
  expect_refused("plan bad", kBadInput, "instead of a JSON object");
}

TEST_F(CliRefusals, FieldsOfConfigJson) {
  expect_bad_field("model_type", "bloom", "bloom");
  expect_bad_field("hidden_size", "24", "hidden_size is a string (\"24\"), not a whole number");
  expect_bad_field("hidden_size", 24.5, "hidden_size is a number (24.5), not a whole number");
  expect_bad_field("tie_word_embeddings", 1, "tie_word_embeddings is a number (1)");
  expect_bad_field("num_hidden_layers", 0, "num_hidden_layers is 0 and must be at least 1");
  expect_bad_field("vocab_size", -3, "vocab_size is -3 and must be at least 1");
  expect_bad_field("hidden_size", int64_t{1} << 50, "hidden_size is 1125899906842624, more than");
  expect_bad_field("num_hidden_layers", uint64_t{1} << 63,
                   "num_hidden_layers is 92233720368547758");
  expect_bad_field("num_attention_heads", 5,
                   "num_attention_heads is 5 and does not divide the width of 24");
  expect_bad_field("num_key_value_heads", 3,
                   "num_key_value_heads is 3 and does not divide the 4 attention heads");
  expect_bad_field("rope_scaling", {{"rope_type", "unheard"}}, "unheard");
}

TEST_F(CliRefusals, Flags) {
  expect_refused("plan tiny --bacth 4", kUsage, "no option '--bacth' - did you mean '--batch'?");
  expect_refused("train tiny --zzzzzzzz", kUsage, "snug train has no option '--zzzzzzzz'");
  expect_refused("plan tiny --batch", kUsage, "--batch needs a value");
  expect_refused("train tiny --json=maybe", kUsage, "--json");
}

TEST_F(CliRefusals, Values) {
  expect_refused("plan tiny --batch 0", kUsage, "--batch is 0; it must be at least 1");
  expect_refused("plan tiny --batch four", kUsage, "--batch 'four' is not a whole number");
  expect_refused("plan tiny --batch 4x", kUsage, "--batch '4x' is not a whole number");
  expect_refused("plan tiny --batch 9223372036854775808", kUsage, "--batch 9223372036854775808");
  expect_refused("plan tiny --batch 9223372036854775807", kUsage, "absurdly large");
  for (const std::string verb : {"plan", "train", "fit", "ladder"}) {
    const std::string budget = verb == "fit" ? " --budget 1GiB" : "";
    expect_refused(verb + " tiny --global-batch 9223372036854775807" + budget, kUsage,
                   "absurdly large");
  }
  expect_refused("plan mlp:8x2 --global-batch 9223372036854775807 --steps 1", kUsage,
                 "absurdly large");
  expect_refused("plan tiny --batch 4 --accum 4611686018427387904", kUsage, "absurdly large");
  expect_refused("train tiny --steps 9223372036854775807", kUsage, "absurdly large");
  expect_refused("plan tiny --seq -1", kUsage, "--seq is -1; it must be at least 0");
  expect_refused("plan tiny --accum -1", kUsage, "--accum is -1; it must be at least");
  expect_refused("plan tiny --dropout nan", kUsage, "--dropout is nan");
  expect_refused("plan tiny --budget 12XB", kUsage, "--budget '12XB' is not an amount of memory");
  expect_refused("plan tiny --loss chunked:0", kUsage,
                 "--loss 'chunked:0': '0' is not a number of tokens");
  expect_refused("plan tiny --loss hole", kUsage, "did you mean 'whole'?");
  expect_refused("plan tiny --attention foo", kUsage, "--attention 'foo' is not one of auto,");
  expect_refused("train tiny --steps -1", kUsage, "--steps is -1; it must be at least 1");
  expect_refused("train tiny --lr nan", kUsage, "--lr is nan; it must be between 0 and 1000");
  expect_refused("train tiny --lr fast", kUsage, "--lr 'fast' is not a number");
  expect_refused("train tiny --init laod", kUsage, "did you mean 'load'?");
  expect_refused("train tiny --lr-schedule cosinus", kUsage, "did you mean 'cosine'?");
  expect_refused("train tiny --device cuda:9", kUsage, "--device 'cuda:9' is not one of");
  expect_refused("train tiny --tune fast", kUsage, "--tune 'fast' is not one of");
  expect_refused("train tiny --init load", kUsage, "--init load, but 'tiny' holds no weights");
}

TEST_F(CliRefusals, ConfigFiles) {
  expect_refused("plan tiny --config none.toml", kBadInput, "--config none.toml is not a file");
  expect_refused("plan tiny --config tiny", kBadInput, "--config tiny is not a file");
  write("a.toml", "# a comment\n\nbacth = 4\n");
  expect_refused("plan tiny --config a.toml", kUsage,
                 "a.toml: line 3: snug plan has no option 'bacth' - did you mean 'batch'?");
  write("a.toml", "batch = \"four\"\n");
  expect_refused("plan tiny --config a.toml", kUsage, "--batch 'four' is not a whole number");
  write("a.toml", "batch = 0  # none\n");
  expect_refused("plan tiny --config a.toml", kUsage, "--batch is 0; it must be at least 1");
  for (const std::string line : {"batch", "batch =", "data = \"open", "= 4", "data = \"a\" b",
                                 "precision = bf16", "\x7f\x45LF = 3", "seq = 32"}) {
    write("a.toml", "seq = 16\n" + line + "\n");
    expect_refused("plan tiny --config a.toml", kUsage, "a.toml: line 2: ", "the file is TOML");
  }
  write("a.toml", "seq = 16\nBATCH = 4\n");
  expect_refused("plan tiny --config a.toml", kUsage, "line 2: snug plan has no option 'BATCH'");
  write("a.toml", "seq = 16\n[run]\nbatch = 4\n");
  expect_refused("plan tiny --config a.toml", kUsage, "line 2: there is no table [run]");
  write("a.toml", "batch = [4]\n");
  expect_refused("plan tiny --config a.toml", kUsage, "line 1: batch is not a number");
  write("a.toml", "batch = 4.0\n");
  expect_refused("plan tiny --config a.toml", kUsage, "--batch '4.0' is not a whole number");
  std::string garbage;
  for (int i = 0; i < 4096; ++i) garbage += static_cast<char>(i * 7919 >> 3);
  write("a.toml", garbage);
  expect_refused("plan tiny --config a.toml", kUsage, "a.toml: line ");
}

TEST_F(CliRefusals, EndlessConfigFiles) {
  expect_refused("plan tiny --config /dev/zero", kBadInput, "--config /dev/zero is not a regular");
  ASSERT_EQ(::mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  expect_refused("plan tiny --config pipe", kBadInput, "--config pipe is not a regular file");
  write("huge.toml", std::string((1 << 20) + 1, '#'));
  expect_refused("plan tiny --config huge.toml", kBadInput, "far too large for options");
}

TEST_F(CliRefusals, ConfigFilesAreToml) {
  write("a.toml", "batch = 1_6\nattention = 'flash'  # a comment\n[settled]\nbatch = 3\n");
  const Ended run = snug("plan tiny --config a.toml --json");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["recipe"]["batch"], 16);
}

TEST_F(CliRefusals, ControlCharactersDoNotReachTheTerminal) {
  write("a.toml", "\"b\\u001b\" = 4\n");
  write("\x1b]0;title/config.json", tiny_config().dump());
  for (const std::string line :
       {"plan tiny\x1b[31m", "train tiny --data a\x1b[31m", "train tiny --steps 1 --out \x1b/\x1b",
        "plan tiny --config a.toml", "plan \x1b]0;title",
        "train \x1b]0;title --seq 16 --steps 1"}) {
    const Ended run = snug(line);
    EXPECT_EQ((run.out + run.err).find('\x1b'), std::string::npos) << run.out << run.err;
  }
}

TEST_F(CliRefusals, Data) {
  write("empty.txt", "");
  expect_refused("train tiny --data empty.txt", kBadInput, "empty.txt is empty");
  write("short.txt", "seventeen letters");
  expect_refused("train tiny --seq 17 --data short.txt", kBadInput,
                 "17 tokens are fewer than the 18");
  expect_refused("train tiny --data none.txt", kBadInput, "cannot read none.txt");
  expect_refused("train tiny --data text.txt --eval-data none.txt", kBadInput, "none.txt");
  std::filesystem::create_directory(dir_ / "nothing");
  expect_refused("train tiny --data nothing", kBadInput, "nothing holds no files of text");
  write("far.bin", std::string(200, '\1') + std::string("\x00\x01", 2));
  expect_refused("train tiny --seq 16 --data far.bin", kBadInput,
                 "far.bin: token 257 at position 0 is beyond the vocabulary of 256");
  write("odd.bin", "abc");
  expect_refused("train tiny --data odd.bin", kBadInput, "odd.bin holds 3 bytes");
  expect_refused("train mlp:8x2 --data text.txt", kUsage, "trains on --data synthetic only");
}

TEST_F(CliRefusals, UnwritableOutput) {
  const std::string train = "train tiny --seq 16 --steps 1 --data text.txt --out ";
  expect_refused(train + "text.txt", kUsage, "text.txt is not a directory");
  expect_refused(train + "text.txt/deep/below", kUsage, "--out text.txt/deep/below");
  expect_refused(train + "/proc/nowhere", kUsage, "--out /proc/nowhere");
}

TEST_F(CliRefusals, ModelThatDoesNotFit) {
  const auto arena_of = [&](const std::string& sizes) -> int64_t {
    return nlohmann::json::parse(snug("plan tiny --json " + sizes).out)["arena_bytes"];
  };
  const std::string train =
      "train tiny --seq 16 --recompute none --accum 1 --attention flash --loss chunked "
      "--data text.txt --out o --budget ";
  const int64_t budget = arena_of("--seq 16 --batch 2");
  expect_refused(train + std::to_string(budget), ExitCode::does_not_fit,
                 fmt::format(" needs {} ({} bytes) and the budget is {} ({} bytes)",
                             format_bytes(arena_of("--seq 16")), format_exact(arena_of("--seq 16")),
                             format_bytes(budget), format_exact(budget)),
                 "--batch 2 --accum 4 (");
  EXPECT_EQ(snug(train + std::to_string(budget) + " --batch 2 --accum 4 --steps 1").code, 0)
      << "the advice holds";
  EXPECT_THAT(snug(train + "40KB --overwrite").err, ::testing::HasSubstr("the model's own state"));
}

TEST_F(CliRefusals, Gpus) {
  expect_refused("plan tiny --gpu rtx4900", kUsage,
                 "--gpu 'rtx4900' is not in the catalogue - did you mean 'rtx4090'?",
                 "`snug gpus` lists the ");
  expect_refused("plan tiny --gpu", kUsage, "--gpu needs a value");
  expect_refused("plan tiny --gpu A100", kUsage,
                 "did you mean 'a100-80' or 'a100-80-pcie' or 'a100-40'?");
  expect_refused("plan tiny --gpu rtx4060ti", kUsage,
                 "did you mean 'rtx4060ti-8' or 'rtx4060ti-16'?");
  EXPECT_EQ(snug("plan tiny --gpu g6.xlarge").code, 0) << "what a cloud calls it";
  expect_refused("plan tiny --gpu h200 --device cpu", kUsage, "--gpu h200 and --device cpu",
                 "leave one of them out");
  write("gpu.toml", "gpu = \"h200\"\n");
  expect_refused("plan tiny --config gpu.toml --device cpu", kUsage, "--gpu h200 and --device cpu");
  write("no_gpu.toml", "gpu = \"\"\n");  // as every run.toml of a CPU says
  EXPECT_EQ(snug("plan tiny --config no_gpu.toml --device cpu").code, 0);
  write("cpu.toml", "device = \"cpu\"\n");
  EXPECT_EQ(snug("plan tiny --config cpu.toml --gpu h200").code, 0) << "the line overrules a file";
  EXPECT_EQ(snug("plan tiny gpt2 --config cpu.toml --gpu h200").code, 0);
  expect_refused("plan tiny --gpu abacus", kUsage, "--gpu 'abacus' is not in the catalogue");
}

TEST_F(CliRefusals, BudgetsInWrongUnits) {
  for (const char* budget : {"24GIG", "abc", "-1GiB", "1e400GiB", "GiB", "24,5GiB"}) {
    expect_refused(fmt::format("plan tiny --budget {}", budget), kUsage,
                   fmt::format("--budget '{}' is not an amount of memory", budget),
                   "write it like 24GiB");
  }
}

// What a budget below the minimum would take: the least there is, and what would fit.
TEST_F(CliRefusals, BudgetsBelowTheMinimum) {
  const auto refused = [&](const std::string& budget) {
    const Ended run = snug("plan tiny --seq 16 --budget " + budget);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::does_not_fit)) << run.err;
    return run.out;
  };
  EXPECT_THAT(refused("370KB"), ::testing::ContainsRegex("does not fit .* too much"));
  EXPECT_THAT(refused("24"), ::testing::HasSubstr("does not fit  budget 24 B"));
  EXPECT_THAT(refused("24"), ::testing::HasSubstr("cannot hold it"));
  expect_refused(
      "plan tiny --device cuda --budget 24", ExitCode::does_not_fit,
      "--budget 24 leaves nothing: the GPU's driver and libraries alone take 576.00 MiB");
}

TEST_F(CliRefusals, ContradictoryPins) {
  expect_refused("plan tiny --accum 3 --global-batch 16", kUsage,
                 "--global-batch 16 takes 2 micro-batches of --batch 8, but --accum is 3");
  expect_refused("plan tiny --update-in-backward", kUsage, "--update-in-backward", "--clip 0");
  expect_refused("plan tiny --optimizer adamw8bit --state-dtype bf16", kUsage,
                 "--optimizer adamw8bit keeps its moments in 8 bits: --state-dtype bf16");
  expect_refused("plan tiny --precision bf16 --grad-dtype fp16", kUsage,
                 "--grad-dtype fp16 under --precision bf16");
}

TEST_F(CliRefusals, AllowWords) {
  expect_refused("plan tiny --allow optimiser", kUsage, "did you mean 'optimizer'?");
  expect_refused("plan tiny --allow optimizer,speed", kUsage, "'speed'");
}

TEST_F(CliRefusals, BytesBeyondAnyMachine) {
  const Ended run = snug("train tiny --batch 1000000000 --out o");
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::does_not_fit));
  EXPECT_THAT(run.err, ::testing::ContainsRegex("snug: an arena of [0-9.]+ TiB .* does not fit"));
  EXPECT_THAT(run.err, ::testing::ContainsRegex("\n      --budget [0-9]+MiB has the search"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

}  // namespace
}  // namespace snug
