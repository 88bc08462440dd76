// snug bench MODEL: against a peer (--peer torch), or against the device's roofline (--roofline).
#include "snug/bench.h"

#include <cstdlib>
#include <filesystem>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "report/bench_report.h"
#include "verbs.h"

namespace snug::cli {
namespace {

// The script is in bench/, next to the directory of this program.
Peer torch_peer() {
  Peer peer;
  if (const char* python = std::getenv("SNUG_PYTHON")) peer.python = python;
  const std::filesystem::path here = std::filesystem::canonical("/proc/self/exe").parent_path();
  peer.script = (here.parent_path() / "bench" / "torch_gpu.py").string();
  return peer;
}

// "torch", or "torch:eager,compile".
Peer peer_of(const std::string& words) {
  Peer peer = torch_peer();
  if (const size_t colon = words.find(':'); colon != std::string::npos)
    peer.modes = split(std::string_view(words).substr(colon + 1), ',');
  return peer;
}

// A row as soon as it is measured; with --json one object at the end.
void show_peer(const Options& options, const Peer& peer) {
  BenchRow snug;
  const PeerObserver observer{
      .started =
          [&](const PeerReport& report) {
            if (!options.json) print_text(peer_head(report, options));
          },
      .running = [](const std::string& name) { show_status(name + " ..."); },
      .measured =
          [&](const BenchRow& row) {
            clear_status();
            if (snug.name.empty()) snug = row;
            if (!options.json) print_text(peer_row(row, snug));
            flush_results();
          }};
  const PeerReport report = bench_peer(options, peer, observer);
  if (options.json) print("{}\n", peer_json(report, options));
}

void show_roofline(const Options& options) {
  const RooflineReport report = roofline(options);
  print_text(options.json ? roofline_json(report, options) + "\n"
                          : roofline_table(report, options));
}

}  // namespace

int bench_verb(const std::vector<std::string>& arguments) {
  CLI::App app("a GPU's speed and memory: against PyTorch, or against its roofline", "snug bench");
  Options options = bench_options();
  std::string peer;
  bool against_roofline = false;
  add_options(app, options, Verbs::train);
  app.add_option(
      "--peer", peer,
      "torch[:eager,compile,transformers]: train the same in PyTorch, our model eager and "
      "compiled and Hugging Face's compiled");
  app.add_flag("--roofline", against_roofline, "each op's time and its roofline bound");
  if (!parse(app, arguments)) return 0;
  if (!peer.empty() && peer != "torch" && !peer.starts_with("torch:")) {
    throw usage_error("--peer '{}' is not a peer that Snug knows", peer)
        .hint("the only peer is --peer torch");
  }
  if (peer.empty() != against_roofline) {
    throw usage_error("snug bench needs one of --peer torch and --roofline").hint(help_hint(app));
  }
  if (!options.out.empty())
    throw usage_error("--out {}: bench keeps no model", options.out).hint("`snug train` keeps one");
  if (against_roofline) {
    show_roofline(options);
  } else {
    show_peer(options, peer_of(peer));
  }
  return 0;
}

}  // namespace snug::cli
