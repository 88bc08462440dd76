// A value: a typed array in a program, its memory category, its lifetime and the place of its
// bytes.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

namespace snug {

// Index into Module::values. A default-made id is "none": an optional input that is absent.
struct ValueId {
  int32_t index = -1;
  constexpr bool valid() const { return index >= 0; }
  friend auto operator<=>(ValueId, ValueId) = default;
};

// Whose memory it is: the rows of every memory breakdown.
enum class Category : uint8_t {
  params,
  master,
  grads,
  optimizer,
  activations,
  recompute,
  buffers,
  workspace,
  comm,
  staging,
  inputs
};
constexpr int kCategories = 11;
std::string_view name_of(Category category);

// Where bytes live. Each space is one arena with its own alignment: that of direct I/O on disk, and
// in host memory, which is staging for it.
enum class Space : uint8_t { device, host, disk };
constexpr int kSpaces = 3;
std::string_view name_of(Space space);
std::optional<Space> parse_space(std::string_view name);
constexpr int64_t alignment_of(Space space) { return space == Space::device ? 256 : 4096; }

// How long a value exists. local: inside one run of one program. step: carried between the programs
// of one step (gradients, the loss, the batch). persistent: from step to step (parameters,
// optimizer state).
enum class Scope : uint8_t { local, step, persistent };
std::string_view name_of(Scope scope);

enum class Role : uint8_t { none, matrix, embedding, head, position, norm, bias };
std::string_view name_of(Role role);

struct Init {
  enum class Kind : uint8_t { zeros, constant, normal } kind = Kind::zeros;
  double value = 0;  // the constant, or the standard deviation
  friend bool operator==(const Init&, const Init&) = default;
};

// What of a parameter a value holds: all of it, or of a frozen one that is stored in blocks of fewer
// bits the codes or the scales. Its initial value and its checkpoint are then those of the whole.
enum class Stored : uint8_t { plain, nf4_codes, nf4_scales, int8_codes, int8_scales };
constexpr int kStoredKinds = 5;
std::string_view name_of(Stored stored);

// A checkpoint tensor is a dense view of a parameter: packed QKV is three parts, a plain weight is
// one.
struct CheckpointPart {
  std::string name;
  Shape shape;
  int64_t offset = 0;  // elements from the parameter's first
  friend bool operator==(const CheckpointPart&, const CheckpointPart&) = default;
};

// `rows` runs of `width` elements: where they are in what this rank has, and where in the whole.
struct Box {
  int64_t rows = 1, width = 0;
  int64_t first = 0, stride = 0;
  int64_t whole_first = 0, whole_stride = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

// A parameter under tensor parallelism (techniques/tensor/tensor_parallel): of one that ranks cut, the boxes of the
// whole that are this rank's; of one that all have whole, whether each sees only its own tokens.
struct TensorCut {
  Shape whole;  // rank 0: it is not cut
  std::vector<Box> boxes = {};
  // Keys and values of fewer heads than ranks: what begins at this element of each rank's part is the
  // same on so many neighbours.
  int64_t repeated_from = 0, repeats = 1;
  bool partial = false;  // its gradient is a sum over the ranks

  bool on() const { return whole.rank() > 0; }
  friend bool operator==(const TensorCut&, const TensorCut&) = default;
};

// What is known of a parameter (or of other persistent state) beyond its type.
struct Param {
  Role role = Role::none;
  Init init;
  bool in_out = false;      // a matrix stored [in, out]: its columns are its outputs, else its rows
  int64_t heads = 0;        // > 0: outputs come in this many heads
  int64_t value_heads = 0;  // the last so many of them are attention's values
  bool trainable = true;
  Stored stored = Stored::plain;
  bool adapter = false;  // not part of the model: saved and loaded apart from it
  TensorCut cut = {};
  std::vector<CheckpointPart> checkpoint;  // empty: not part of the saved model
  friend bool operator==(const Param&, const Param&) = default;
};

// First and last op (index in its program) during which the bytes must be kept. first == -1: from
// before the start.
struct Lifetime {
  int32_t first = -1;
  int32_t last = -1;
  bool overlaps(const Lifetime& o) const { return first <= o.last && o.first <= last; }
  friend bool operator==(const Lifetime&, const Lifetime&) = default;
};

constexpr int kNoLayer = -1;

struct Value {
  std::string name;  // unique among its program's locals and the shared values
  Type type;
  Category category = Category::activations;
  Space space = Space::device;
  Scope scope = Scope::local;
  int32_t program = -1;  // whose local it is; -1 when shared
  int32_t layer = kNoLayer;
  Shape padded;  // the storage's shape where it is larger than the logical one; rank 0: the same

  // A shard, the part of a larger value that one rank has: the larger one's shape (rank 0: it is no
  // shard), and the element of that which is its first. What is past the larger one's end is
  // padding, and zero.
  Shape shard_of;
  int64_t shard_first = 0;

  // A value with a base has no bytes of its own. If no op makes it, it is a view that reads base's
  // bytes; if an op makes it, that op writes into base's bytes: in place, or as the next version of
  // a shared value.
  ValueId base;
  int64_t view_offset = 0;  // elements from base's first

  std::shared_ptr<const Param> param;  // parameters and other initialised state
  // Whose gradient, master or optimizer state it is (its category says which), as training reads
  // that parameter; of a parameter: whose shards it is gathered from. None for everything else.
  ValueId parameter;

  std::optional<Lifetime> live;  // step level and below; locals that own bytes
  // Placed level, values that own bytes: bytes from the start of the space's arena.
  std::optional<int64_t> offset;

  bool owns_bytes() const { return !base.valid(); }
  bool shared() const { return scope != Scope::local; }
  int64_t storage_bytes() const;  // of a value that owns bytes: padding included
  // The whole that it is, or is a shard of.
  const Shape& whole() const { return shard_of.rank() == 0 ? type.shape : shard_of; }
  // Of its elements, those that are no padding: all but in the last shards.
  int64_t elements_in_whole() const;
};

}  // namespace snug
