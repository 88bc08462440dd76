#include "tokenizers/post_processor.h"

#include "tokenizers/vocabulary.h"

namespace snug {
namespace {

// ["[SEP]", 102]
int32_t pair_id(const JsonPart& part, std::string_view key) {
  const nlohmann::json& pair = part.list(key);
  if (pair.size() != 2 || !pair[0].is_string()) part.refuse("a token is [text, id]");
  return token_id(pair[1], pair[0].get_ref<const std::string&>(), part.where());
}

AroundText read_pair(const JsonPart& part) {
  return {{pair_id(part, "cls")}, {pair_id(part, "sep")}};
}

void append_special(const JsonPart& part, const std::string& name, std::vector<int32_t>& ids) {
  const JsonPart tokens = part.part("special_tokens");
  if (!tokens.has(name)) part.refuse("a special token of 'single' is not in 'special_tokens'");
  const JsonPart token = tokens.part(name);
  for (const nlohmann::json& id : token.list("ids"))
    ids.push_back(token_id(id, name, part.where()));
}

AroundText read_template(const JsonPart& part) {
  AroundText out;
  bool seen = false;
  for (const JsonPart& piece : part.parts("single")) {
    if (piece.has("SpecialToken")) {
      append_special(part, piece.part("SpecialToken").text("id"), seen ? out.after : out.before);
    } else {
      if (seen || piece.part("Sequence").text("id") != "A")
        part.refuse("'single' holds more than one text");
      seen = true;
    }
  }
  if (!seen) part.refuse("'single' holds no text");
  return out;
}

}  // namespace

AroundText read_post_processor(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "ByteLevel") return {};  // moves offsets, which are not used
  if (type == "TemplateProcessing") return read_template(part);
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_pair(part);
  if (type != "Sequence") part.refuse_type();
  AroundText out;
  for (const JsonPart& step : part.parts("processors")) {
    const AroundText outer = read_post_processor(step);
    out.before.insert(out.before.begin(), outer.before.begin(), outer.before.end());
    out.after.insert(out.after.end(), outer.after.begin(), outer.after.end());
  }
  return out;
}

}  // namespace snug
