// Spans as lines: JSON, one object each, or comma-separated values with a row of names. In JSON an op that
// exchanges with other ranks says which.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "ir/program.h"
#include "ir/span.h"

namespace snug {

void write_spans_jsonl(const Module& module, std::span<const Span> spans,
                       const std::function<void(std::string_view)>& write);
void write_spans_csv(const Module& module, std::span<const Span> spans,
                     const std::function<void(std::string_view)>& write);

}  // namespace snug
