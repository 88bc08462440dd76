// What `snug bench` says: against a peer a row at a time, against the roofline as one table.
#pragma once

#include <string>

#include "snug/bench.h"

namespace snug {

std::string peer_head(const PeerReport& report, const Options& options);
// `snug` is the first row: the ratios are its figures to the others'.
std::string peer_row(const BenchRow& row, const BenchRow& snug);
std::string peer_json(const PeerReport& report, const Options& options);

std::string roofline_table(const RooflineReport& report, const Options& options);
std::string roofline_json(const RooflineReport& report, const Options& options);

}  // namespace snug
