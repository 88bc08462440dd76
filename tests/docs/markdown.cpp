#include "docs/markdown.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include "base/text.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kFence = "```";

// Calls visit(line, fence) with fence null outside fenced blocks.
template <typename Visit>
std::vector<Fence> walk(std::string_view markdown, Visit&& visit) {
  std::vector<Fence> fences;
  bool inside = false;
  for (const std::string& line : split(markdown, '\n')) {
    if (line.starts_with(kFence)) {
      inside = !inside;
      if (inside) fences.push_back({line.substr(kFence.size()), {}});
    } else if (inside) {
      fences.back().lines.push_back(line);
    } else {
      visit(line);
    }
  }
  return fences;
}

Row cells_of(const std::string& line) {
  Row cells;
  std::string cell;
  for (size_t i = 1; i < line.size(); ++i) {  // the first character is the row's own bar
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|') {
      cells.emplace_back(trim(cell));
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}

}  // namespace

std::vector<Fence> fences_of(std::string_view markdown) {
  return walk(markdown, [](const std::string&) {});
}

std::vector<Row> rows_of(std::string_view markdown, std::string_view start) {
  std::vector<Row> rows;
  walk(markdown, [&](const std::string& line) {
    if (!line.starts_with("|")) return;
    Row cells = cells_of(line);
    if (!cells.empty() && cells[0].starts_with(start)) rows.push_back(std::move(cells));
  });
  return rows;
}

std::vector<DocumentLink> relative_links_of(std::string_view markdown) {
  static const std::regex code("`[^`]*`");
  static const std::regex link(R"(\]\(([^)#]*)#?([^)]*)\))");
  std::vector<DocumentLink> links;
  walk(markdown, [&](const std::string& line) {
    const std::string prose = std::regex_replace(line, code, "");
    for (std::sregex_iterator at(prose.begin(), prose.end(), link), end; at != end; ++at) {
      DocumentLink found{(*at)[1], (*at)[2]};
      if (found.path.find("://") == std::string::npos) links.push_back(std::move(found));
    }
  });
  return links;
}

std::vector<std::string> parts_of(std::string_view markdown) {
  std::vector<std::string> parts;
  walk(markdown, [&](const std::string& line) {
    const size_t title = line.find_first_not_of('#');
    if (title == 0 || title == std::string::npos || line[title] != ' ') return;
    std::string part;
    for (const char c : line.substr(title + 1)) {
      if (c == ' ' || c == '-') part += '-';
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')
        part += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    parts.push_back(std::move(part));
  });
  return parts;
}

std::vector<std::string> code_paths_of(std::string_view markdown) {
  static const std::regex path("`([a-z_]+(?:/[a-z0-9_.]+)+)`");
  std::vector<std::string> paths;
  walk(markdown, [&](const std::string& line) {
    for (std::sregex_iterator at(line.begin(), line.end(), path), end; at != end; ++at)
      paths.push_back((*at)[1]);
  });
  return paths;
}

std::vector<fs::path> documents(const fs::path& root) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() == ".md") found.push_back(entry.path().filename());
  }
  for (const char* folder : {"docs", "tests", "bench", "examples", "tools", "src"}) {
    if (!fs::is_directory(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md") found.push_back(fs::relative(entry.path(), root));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace snug
