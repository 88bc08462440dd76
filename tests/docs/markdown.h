// Just enough Markdown to hold the documents to the program: fenced blocks, table rows, links and
// paths.
//
//   for (const Fence& fence : fences_of(read_file("README.md"))) fence.language == "sh";
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

struct Fence {
  std::string language;
  std::vector<std::string> lines;
};
std::vector<Fence> fences_of(std::string_view markdown);

// Table rows whose first cell begins with `start`, cell by cell; \| is a bar inside a cell.
using Row = std::vector<std::string>;
std::vector<Row> rows_of(std::string_view markdown, std::string_view start);

// [text](path#part) outside fences and `code`, without addresses; a path may be empty, and so a part.
struct DocumentLink {
  std::string path, part;
  bool operator==(const DocumentLink&) const = default;
};
std::vector<DocumentLink> relative_links_of(std::string_view markdown);

// The parts that a link may name: "## How exact it is" is "how-exact-it-is".
std::vector<std::string> parts_of(std::string_view markdown);

// Whole `code` spans outside fences that are a path of the project: "ir/order", "bench/results".
std::vector<std::string> code_paths_of(std::string_view markdown);

// Every document of the project, by path from its root, sorted.
std::vector<std::filesystem::path> documents(const std::filesystem::path& root);

}  // namespace snug
