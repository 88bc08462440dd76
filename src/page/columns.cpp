#include "page/columns.h"

namespace snug {

std::string without_layer(const std::vector<std::string>& layers, const std::string& name,
                          int32_t layer) {
  if (layer < 0 || static_cast<size_t>(layer) >= layers.size()) return name;
  const std::string& prefix = layers[static_cast<size_t>(layer)];
  for (size_t at = name.find(prefix); at != name.npos; at = name.find(prefix, at + 1)) {
    const size_t end = at + prefix.size();
    const bool begins = at == 0 || name[at - 1] == '.';
    const bool ends = end == name.size() || name[end] == '.';
    if (begins && ends) return name.substr(0, at) + kLayerMark + name.substr(end);
  }
  return name;
}

Json changes_of(std::span<const int64_t> course) {
  Json out = Json::array();
  for (size_t i = 0; i < course.size(); ++i) {
    if (i > 0 && course[i] == course[i - 1]) continue;
    out.push_back(i);
    out.push_back(course[i]);
  }
  return out;
}

}  // namespace snug
