#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "formats/json_error.h"

namespace snug {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little,
              "tensors are used as they are in the file");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;
constexpr int kMaxDepth = 3;  // {name: {"shape": [...]}}

constexpr std::array<FileDtype, 22> kFileDtypes{{
    {"BOOL", 8, std::nullopt},
    {"U8", 8, Dtype::u8},
    {"I8", 8, Dtype::i8},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"I32", 32, Dtype::i32},
    {"U32", 32, std::nullopt},
    {"I64", 64, Dtype::i64},
    {"U64", 64, std::nullopt},
    {"F16", 16, Dtype::f16},
    {"BF16", 16, Dtype::bf16},
    {"F32", 32, Dtype::f32},
    {"F64", 64, Dtype::f64},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"C64", 64, std::nullopt},
}};

// The JSON text between the length and the data.
std::string header_text(const FileReader& file) {
  const std::string path = file.path().string();
  if (file.size() < kLengthBytes) {
    throw bad_input("{}: {} bytes are too few for a safetensors file", path, file.size());
  }
  uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kMaxHeaderBytes) {
    throw bad_input(
        "{}: not a safetensors file: its header would be {} bytes, the format allows {}", path,
        length, kMaxHeaderBytes);
  }
  if (static_cast<int64_t>(length) > file.size() - kLengthBytes) {
    throw bad_input("{}: truncated: the header is {} bytes, the file has {} after its first 8",
                    path, length, file.size() - kLengthBytes)
        .hint("download it again");
  }
  std::string text(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

// Looks at a header's events: refuses what a JSON object would silently merge (a name given twice)
// or never needs (depth). nlohmann's own callback parser is quadratic in the number of tensors.
class HeaderCheck : public nlohmann::json_sax<json> {
 public:
  explicit HeaderCheck(std::string path) : path_(std::move(path)) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(json::number_integer_t) override { return true; }
  bool number_unsigned(json::number_unsigned_t) override { return true; }
  bool number_float(json::number_float_t, const json::string_t&) override { return true; }
  bool string(json::string_t&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(size_t) override { return descend(); }
  bool start_array(size_t) override { return descend(); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(json::string_t& name) override {
    if (depth_ == 1 && !names_.insert(name).second)
      throw bad_input("{}: tensor {} is listed twice", path_, name);
    return true;
  }
  // The second pass says where and why.
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  bool descend() {
    if (depth_++ == kMaxDepth)
      throw bad_input("{}: the header nests deeper than {}", path_, kMaxDepth);
    return true;
  }

  std::string path_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;
};

json parse_header(const std::string& path, const std::string& text) {
  HeaderCheck check(path);
  json::sax_parse(text, &check);
  try {
    json header = json::parse(text);
    if (!header.is_object()) throw bad_input("{}: the header is not a JSON object", path);
    return header;
  } catch (const json::exception& error) {
    throw bad_input("{}: the header is not valid JSON: {}", path, plain_words(error))
        .hint("the file is damaged; download it again");
  }
}

// One header entry on its way to a TensorEntry. Every refusal names the file and the tensor.
class EntryReader {
 public:
  EntryReader(const std::filesystem::path& path, const std::string& name, const json& entry)
      : path_(path), name_(name), entry_(entry) {
    if (!entry.is_object()) throw wrong("is not described by a JSON object");
  }

  // The data is what the file has from byte `data` on.
  TensorEntry read(const std::shared_ptr<const FileReader>& file, int64_t data) const {
    const FileDtype& dtype = read_dtype();
    const Shape shape = read_shape();
    const auto [begin, end] = read_offsets(file->size() - data);
    const int64_t needed = bytes_of(shape, dtype);
    if (end - begin != needed) {
      throw wrong(fmt::format("is {}{} = {} bytes, but its offsets [{},{}] span {}", dtype.name,
                              shape.text(), needed, begin, end, end - begin));
    }
    return {name_, dtype.name, dtype.dtype, shape, needed, data + begin, file};
  }

 private:
  Error wrong(std::string_view why) const {
    return bad_input("{}: tensor {} {}", path_.string(), name_, why);
  }

  const json& field(const char* key) const {
    const auto at = entry_.find(key);
    if (at == entry_.end()) throw wrong(fmt::format("has no {}", key));
    return *at;
  }

  const FileDtype& read_dtype() const {
    const json& name = field("dtype");
    if (!name.is_string()) throw wrong("has a dtype that is not a string");
    const FileDtype* dtype = find_file_dtype(name.get_ref<const std::string&>());
    if (dtype == nullptr) throw wrong("has the unknown dtype " + name.get<std::string>());
    return *dtype;
  }

  std::vector<int64_t> read_numbers(const char* key) const {
    const json& list = field(key);
    if (!list.is_array()) throw wrong(fmt::format("has a {} that is not a list", key));
    std::vector<int64_t> numbers;
    for (const json& item : list) {
      if (!item.is_number_unsigned() ||
          item.get<uint64_t>() > std::numeric_limits<int64_t>::max()) {
        throw wrong(fmt::format("has {} in its {}, where a count is needed",
                                item.is_number() ? item.dump() : item.type_name(), key));
      }
      numbers.push_back(item.get<int64_t>());
    }
    return numbers;
  }

  Shape read_shape() const {
    const std::vector<int64_t> dims = read_numbers("shape");
    if (dims.size() > Shape::kMaxRank) {
      throw wrong(fmt::format("has {} axes; at most {} are read", dims.size(), Shape::kMaxRank));
    }
    return Shape(dims);
  }

  std::pair<int64_t, int64_t> read_offsets(int64_t data_bytes) const {
    const std::vector<int64_t> at = read_numbers("data_offsets");
    if (at.size() != 2) throw wrong(fmt::format("has {} data_offsets instead of 2", at.size()));
    if (at[0] > at[1]) throw wrong(fmt::format("begins at byte {} after its end {}", at[0], at[1]));
    if (at[1] > data_bytes) {
      throw wrong(fmt::format("ends at byte {} of {}", at[1], data_bytes))
          .hint("download it again");
    }
    return {at[0], at[1]};
  }

  int64_t bytes_of(const Shape& shape, const FileDtype& dtype) const {
    int64_t bits = dtype.bits;
    for (const int64_t dim : shape.dims()) {
      if (__builtin_mul_overflow(bits, dim, &bits)) {
        throw wrong(fmt::format("has the shape {}, which is absurdly large", shape.text()));
      }
    }
    if (bits % 8 != 0) throw wrong(fmt::format("of {} bits ends inside a byte", bits));
    return bits / 8;
  }

  const std::filesystem::path& path_;
  const std::string& name_;
  const json& entry_;
};

std::map<std::string, std::string> read_metadata(const std::filesystem::path& path,
                                                 const json& from) {
  if (!from.is_object()) throw bad_input("{}: __metadata__ is not a JSON object", path.string());
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : from.items()) {
    if (!value.is_string()) {
      throw bad_input("{}: __metadata__ {} is not a string", path.string(), key);
    }
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

// Sorts the tensors by their bytes and refuses holes, overlaps and bytes that no tensor owns.
// `data`: where the file's data begins.
void check_tiling(const FileReader& file, int64_t data, std::vector<TensorEntry>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.bytes) < std::pair(b.begin, b.bytes);
  });
  int64_t expected = data;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.begin != expected) {
      throw bad_input("{}: tensor {} begins at byte {}, but the one before it ends at {}",
                      file.path().string(), tensor.name, tensor.begin - data, expected - data);
    }
    expected += tensor.bytes;
  }
  if (expected != file.size()) {
    throw bad_input("{}: the tensors end at byte {} of {}", file.path().string(), expected - data,
                    file.size() - data);
  }
}

}  // namespace

const FileDtype* find_file_dtype(std::string_view name) {
  const auto* at = std::find_if(kFileDtypes.begin(), kFileDtypes.end(),
                                [&](const FileDtype& known) { return known.name == name; });
  return at == kFileDtypes.end() ? nullptr : at;
}

std::string_view file_dtype_name(Dtype dtype) {
  for (const FileDtype& known : kFileDtypes) {
    if (known.dtype == dtype) return known.name;
  }
  throw internal_error("safetensors has no name for {}", name_of(dtype));
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : file_(std::make_shared<FileReader>(std::move(path))) {
  const std::string text = header_text(*file_);
  const int64_t data = kLengthBytes + static_cast<int64_t>(text.size());
  const json header = parse_header(this->path().string(), text);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = read_metadata(this->path(), entry);
    } else {
      tensors_.push_back(EntryReader(this->path(), name, entry).read(file_, data));
    }
  }
  check_tiling(*file_, data, tensors_);
  for (size_t i = 0; i < tensors_.size(); ++i) by_name_.emplace(tensors_[i].name, i);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  const TensorEntry& tensor = tensors_[at->second];
  if (!tensor.dtype) {
    throw bad_input("{}: unsupported dtype {} for tensor {}", path().string(), tensor.file_dtype,
                    name);
  }
  return &tensor;
}

}  // namespace snug
