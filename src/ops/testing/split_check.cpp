#include "ops/testing/split_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ir/builder.h"
#include "ops/testing/tensor_bytes.h"
#include "ops/testing/tolerance.h"

namespace snug {
namespace {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Of a variadic port all values are cut as the port is.
int cut_of_input(const Split& split, size_t i) {
  return split.inputs[std::min(i, split.inputs.size() - 1)];
}

// The size of the axis in the coarsest unit; less than 2: nothing to cut. Fails where a port that
// is cut does not count the axis.
int64_t extent_of(const OpCase& c, const Op& op, const Split& split) {
  if (c.module[op.inputs[0]].type.shape.rank() < split.min_rank) return 0;
  std::map<std::string, int64_t> sizes;
  const auto meet = [&](ValueId id, int dim, std::string_view port) {
    if (!id.valid() || dim < 0) return;
    const Shape& shape = c.module[id].type.shape;
    EXPECT_LT(dim, shape.rank()) << op.def->kind << " cuts " << port << " " << shape.text();
    if (dim < shape.rank()) sizes.emplace(fmt::format("{} {}", port, shape.text()), shape[dim]);
  };
  for (size_t i = 0; i < op.inputs.size(); ++i)
    meet(op.inputs[i], cut_of_input(split, i), op.def->port_of_input(i).name);
  for (size_t o = 0; o < op.outputs.size(); ++o)
    meet(op.outputs[o], split.outputs[o], op.def->outputs[o].name);
  if (sizes.empty()) return 0;
  int64_t extent = sizes.begin()->second;
  for (const auto& [port, size] : sizes) extent = std::min(extent, size);
  for (const auto& [port, size] : sizes) {
    EXPECT_TRUE(extent == 0 || size % extent == 0) << op.def->kind << " cuts " << port << " along "
                                                   << split.axis << ", which counts " << extent;
  }
  return extent;
}

// A range of the axis along one dimension of one port.
Range in_units(Range range, int64_t extent, const Type& type, int dim) {
  const int64_t units = type.shape[dim] / extent;
  return {range.begin * units, range.end * units};
}

Type part_of(const Type& whole, int dim, Range range) {
  std::vector<int64_t> dims(whole.shape.dims().begin(), whole.shape.dims().end());
  dims[static_cast<size_t>(dim)] = range.size();
  return {whole.dtype, Shape(dims)};
}

// The bytes of [range) along `dim` of a value of type `whole`.
Guarded slice(const Type& whole, const Guarded& from, int dim, Range range) {
  int64_t outer = 1;
  for (int d = 0; d < dim; ++d) outer *= whole.shape[d];
  const Type part = part_of(whole, dim, range);
  Guarded to(part.bytes());
  const int64_t run = outer == 0 ? 0 : part.bytes() / outer;
  const int64_t stride = outer == 0 ? 0 : whole.bytes() / outer;
  const int64_t skip = range.size() == 0 ? 0 : run / range.size() * range.begin;
  for (int64_t i = 0; i < outer; ++i)
    std::memcpy(to.data() + i * run, from.data() + i * stride + skip, static_cast<size_t>(run));
  return to;
}

// One op on a part of its inputs.
struct Part {
  OpCase c;
  Buffers values, outputs;
  const Op& op() const { return c.program().ops[0]; }
};

class SplitCheck {
 public:
  SplitCheck(const OpCase& c, const Op& op, const Split& split, const Buffers& values,
             OpRunner& runner, const Buffers& whole, int64_t extent)
      : c_(c),
        op_(op),
        split_(split),
        values_(values),
        runner_(runner),
        whole_(whole),
        extent_(extent) {}

  void cut() {
    const int64_t first = (extent_ + 2) / 3;
    const Range ranges[] = {{0, first}, {first, extent_}};
    std::vector<Part> parts;
    for (const Range range : ranges) parts.push_back(run(range, parts.empty()));
    for (size_t o = 0; o < op_.outputs.size(); ++o) {
      SCOPED_TRACE(fmt::format("{}.{} cut along {} at {} of {}", op_.def->kind,
                               op_.def->outputs[o].name, split_.axis, first, extent_));
      const int dim = split_.outputs[o];
      if (dim == Split::kPartial) {
        adds_up(o, parts);
        continue;
      }
      for (size_t p = 0; p < parts.size(); ++p) {
        is_same(o, parts[p], cut_value(type_of(o), whole_[o], dim, ranges[p]));
      }
    }
  }

 private:
  const Type& type_of(size_t o) const { return c_.module[op_.outputs[o]].type; }
  Type cut_type(const Type& type, int dim, Range range) const {
    return dim < 0 ? type : part_of(type, dim, in_units(range, extent_, type, dim));
  }
  Guarded cut_value(const Type& type, const Guarded& value, int dim, Range range) const {
    return dim < 0 ? value : slice(type, value, dim, in_units(range, extent_, type, dim));
  }

  // What a partial sum is added to goes into the first part alone.
  bool is_left_out(size_t i, bool first) const {
    if (first) return false;
    for (const Accumulate& a : op_.def->accumulate) {
      if (static_cast<size_t>(a.input) == i &&
          split_.outputs[static_cast<size_t>(a.output)] == Split::kPartial)
        return true;
    }
    return false;
  }

  Part run(Range range, bool first) {
    Part part{.c = {.sample = c_.sample}};
    Builder b(part.c.module, "part");
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      const ValueId id = op_.inputs[i];
      if (!id.valid() || is_left_out(i, first)) {
        part.c.input_ids.emplace_back();
        continue;
      }
      const Type& type = c_.module[id].type;
      const int dim = cut_of_input(split_, i);
      part.c.input_ids.push_back(add_shared(part.c.module, fmt::format("in{}", i),
                                            cut_type(type, dim, range), Category::inputs,
                                            Scope::step));
      part.values.push_back(cut_value(type, values_[at(id)], dim, range));
    }
    part.c.outputs = b.emit(*op_.def, op_.name, part.c.input_ids, op_.attrs);
    part.outputs = runner_.run(part.c, part.op(), part.values, {});
    return part;
  }

  // To the bit on this machine's library or within rounding: a GEMM of fewer rows may be summed in
  // another order, updates count their noise from the part's first element, and their loops fuse
  // multiply and add in whole vectors alone.
  void is_same(size_t o, const Part& part, const Guarded& want) const {
    const Type& type = part.c.module[part.c.outputs[o]].type;
    ASSERT_EQ(static_cast<size_t>(type.bytes()), want.size()) << "a part is " << type.text();
    if (part.outputs[o] == want) return;
    expect_close(from_bytes(type, part.outputs[o].data()).v, from_bytes(type, want.data()).v,
                 runner_.backend(), type.dtype, "a part", /*factor=*/2);
  }

  // Every part is rounded, as is the whole, and some of them once per chunk.
  void adds_up(size_t o, const std::vector<Part>& parts) const {
    const Type& type = type_of(o);
    std::vector<double> sum(static_cast<size_t>(type.shape.elements()));
    for (const Part& part : parts) {
      ASSERT_EQ(part.c.module[part.c.outputs[o]].type, type) << "a partial sum is as the whole";
      const std::vector<double> addend = from_bytes(type, part.outputs[o].data()).v;
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
    }
    expect_close(sum, from_bytes(type, whole_[o].data()).v, runner_.backend(), type.dtype,
                 "the sum of the parts", /*factor=*/4);
  }

  const OpCase& c_;
  const Op& op_;
  const Split& split_;
  const Buffers& values_;
  OpRunner& runner_;
  const Buffers& whole_;
  int64_t extent_;
};

}  // namespace

void check_splits(const OpCase& c, const Op& op, const Buffers& values, OpRunner& runner,
                  const Buffers& whole) {
  for (const Split& split : op.def->splits) {
    const int64_t extent = extent_of(c, op, split);
    if (extent >= 2) SplitCheck(c, op, split, values, runner, whole, extent).cut();
  }
}

std::set<std::string> splits_cut(const OpCase& c) {
  std::set<std::string> cut;
  for (const Op& op : c.program().ops) {
    for (const Split& split : op.def->splits) {
      if (extent_of(c, op, split) >= 2) cut.insert(fmt::format("{} {}", op.def->kind, split.axis));
    }
  }
  return cut;
}

}  // namespace snug
