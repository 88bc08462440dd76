// Hjson, which is JSON as people write it: comments (# // /* */), commas left out or left over, keys and
// texts without quotes.
//
//   const nlohmann::ordered_json config = read_hjson("{ stage: 3  # all of it\n }", "ds.json");
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace snug {

// An object, in the order of the file. Throws bad_input with the line for what is no Hjson, for a key
// that is there twice, and for more depth or keys than any configuration has.
nlohmann::ordered_json read_hjson(std::string_view text, std::string_view where);

}  // namespace snug
