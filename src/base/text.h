// Small helpers on text: splitting, edit distance ("did you mean"), files read and written whole.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

std::vector<std::string> split(std::string_view text, char at);
std::string_view trim(std::string_view text);
std::string_view trim_end(std::string_view text);
std::string join(std::span<const std::string> parts, std::string_view with);

// The text as a terminal may show it: control characters and what is not UTF-8 become \xNN, so that
// a name from a file cannot move the cursor or change colours.
std::string printable(std::string_view text);

// " - did you mean 'llama-7b'?" when some candidate is near, else "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// Throws bad_input when the file cannot be read.
std::string read_file(const std::filesystem::path& path);

// Through a temporary file that is renamed when it is on the disk: a reader sees the old file or
// the new one, never half of one.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace snug
