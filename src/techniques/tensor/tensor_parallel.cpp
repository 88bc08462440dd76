// Tensor and sequence parallelism, on a forward program. Values have one of three layouts:
//
//   whole      every rank has all of it: tokens, targets, what is gathered for a matmul
//   rows       each has a block of the batch's tokens, flattened: [B*T/tp, C]. Norms, residuals and
//              dropout compute token by token, so that they run on blocks
//   features   each has some heads, or some features of the MLP, of every token
//
// A linear layer whose outputs go, through ops that compute features alone, to linear layers only is
// cut by its outputs: it reads all tokens, and leaves features. The layer that reads features is cut by
// its inputs: it leaves a part of a sum over the ranks, which are scattered to rows. The words of the
// embedding and of the head are cut; the embedding leaves a part of a sum, too.
//
//   rows -> gather -> linear -> features -> attention, activation -> linear -> sum, scatter -> rows
//
// What every rank would add to a sum (a bias, positions) only the first one adds. Their gradients are
// made of all tokens, and so are complete; those of parameters that rows read are not, and
// sum_over_tensor_ranks adds them up (TensorCut::partial).
#include "techniques/tensor/tensor_parallel.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "ir/builder.h"
#include "ops/activation/dropout.h"
#include "ops/basic/add.h"
#include "ops/comm/comm.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/linear/weight_layout.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/vocabulary_loss.h"
#include "passes/retype.h"

namespace snug {
namespace {

enum class Layout : uint8_t { whole, rows, features };

// Of outputs that lie side by side: queries, keys and values, or gate and up.
struct OutputPart {
  int64_t units = 0;     // heads, or features
  int64_t each = 1;      // outputs of a unit
  bool repeats = false;  // fewer units than ranks: neighbours have the same one
  std::string_view what;
};

// What this rank has of one: so many outputs from `first` on, which so many neighbours have.
struct OutputRange {
  int64_t first = 0, size = 0, sharers = 1;
};

size_t port(const OpDef& def, std::string_view name) {
  return static_cast<size_t>(def.input_port(name));
}

class TensorParallel {
 public:
  TensorParallel(Module& module, std::string_view program, const Mesh& mesh)
      : module_(module),
        mesh_(mesh),
        builder_(module, program),
        ops_(std::exchange(builder_.program().ops, {})) {}

  Forward run(Forward forward) {
    find_tokens();
    find_readers();
    for (Op& op : ops_) {
      for (ValueId& id : op.inputs) id = now(id);
      builder_.set_layer(op.layer);
      rewrite(op);
    }
    return {.loss = now(forward.loss)};
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    throw usage_error("--tp {}: {}", mesh_.tp, fmt::format(format, std::forward<Args>(args)...));
  }
  // "6 heads do not divide", with the numbers of ranks that would do.
  [[noreturn]] void refuse_size(std::string_view what, int64_t units,
                                const std::function<bool(int64_t)>& divides) const {
    std::vector<std::string> would;
    for (int64_t tp = 2; tp <= 64; ++tp)
      if (divides(tp)) would.push_back(std::to_string(tp));
    throw usage_error("--tp {}: {} do not divide over {} ranks", mesh_.tp, counted(units, what),
                      mesh_.tp)
        .hint(would.empty() ? "no number of ranks would do"
                            : fmt::format("--tp {} would do", join(would, ", ")));
  }

  ValueId now(ValueId id) const {
    const auto found = replaced_.find(id);
    return found == replaced_.end() ? id : found->second;
  }
  Layout layout(ValueId id) const {
    const auto found = layouts_.find(id);
    return found == layouts_.end() ? Layout::whole : found->second;
  }
  bool reads(const Op& op, Layout wanted) const {
    return std::ranges::any_of(op.inputs,
                               [&](ValueId id) { return id.valid() && layout(id) == wanted; });
  }
  bool is_parameter(ValueId id) const { return module_[id].category == Category::params; }

  // --- what the model is ------------------------------------------------------------------------

  void find_tokens() {
    const auto found =
        std::ranges::find_if(ops_, [](const Op& op) { return op.def == &ops::embedding_def; });
    if (found == ops_.end()) refuse("'{}' has no words: it is no transformer", module_.name);
    const Shape& tokens = module_[found->inputs[port(ops::embedding_def, "tokens")]].type.shape;
    batch_ = tokens[0];
    length_ = tokens[1];
    require_tokens_divide(batch_, length_, mesh_);
  }

  void find_readers() {
    for (size_t at = 0; at < ops_.size(); ++at)
      for (const ValueId id : ops_[at].inputs)
        if (id.valid()) readers_[id].push_back(at);
  }

  // Do outputs of this layer go to linear layers only, through ops that compute each alone?
  bool leads_to_linears(ValueId id) const {
    const auto found = readers_.find(id);
    if (found == readers_.end()) return false;
    return std::ranges::all_of(found->second, [&](size_t at) {
      const Op& op = ops_[at];
      if (op.inputs[0] != id || std::ranges::count(op.inputs, id) != 1) return false;
      if (op.def == &ops::linear_def) return true;
      return op.def->features != Features::together && leads_to_linears(op.outputs[0]);
    });
  }

  std::vector<OutputPart> parts_of(ValueId outputs) const {
    const Op& reader = ops_[readers_.at(outputs)[0]];
    const int64_t width = module_[outputs].type.shape.back();
    switch (reader.def->features) {
      case Features::in_heads: {
        const int64_t D = reader.attrs.i("head_dim"), H = reader.attrs.i("heads"),
                      K = reader.attrs.i("kv_heads");
        return {{H, D, false, "attention head"},
                {K, D, true, "key and value head"},
                {K, D, true, "key and value head"}};
      }
      case Features::in_halves:
        return {{width / 2, 1, false, "feature"}, {width / 2, 1, false, "feature"}};
      case Features::alone:
      case Features::together:
        break;
    }
    return {{width, 1, false, "feature"}};
  }

  OutputRange range_of(const OutputPart& part) const {
    const auto divides = [&](int64_t tp) {
      return part.units % tp == 0 || (part.repeats && tp % part.units == 0);
    };
    if (!divides(mesh_.tp)) refuse_size(part.what, part.units, divides);
    if (part.units % mesh_.tp == 0) {
      const int64_t size = part.units / mesh_.tp * part.each;
      return {mesh_.part * size, size};
    }
    const int64_t sharers = mesh_.tp / part.units;
    return {mesh_.part / sharers * part.each, part.each, sharers};
  }

  // --- ops --------------------------------------------------------------------------------------

  void rewrite(Op& op) {
    if (op.def == &ops::embedding_def) return look_up(op);
    if (op.def == &ops::linear_cross_entropy_def)
      return lose(op, op, op.inputs[port(*op.def, "targets")], op.attrs.i("chunk"));
    if (op.def == &ops::cross_entropy_def) return lose_logits(op);
    if (op.def == &ops::linear_def) {
      if (layout(op.inputs[0]) == Layout::features) return cut_by_inputs(op);
      if (leads_to_linears(op.outputs[0])) return cut_by_outputs(op);
      if (is_head(op)) {
        heads_.emplace(op.outputs[0], std::move(op));
        return;
      }
    }
    if (reads(op, Layout::features)) return on_features(op);
    if (reads(op, Layout::rows)) return on_rows(op);
    add(op, Layout::whole);
  }

  void add(Op& op, Layout made) {
    retype_outputs(module_, op);
    for (const ValueId id : op.outputs) layouts_[id] = made;
    builder_.program().ops.push_back(std::move(op));
  }

  // All tokens of what each rank has a block of.
  ValueId gathered(ValueId id) {
    if (layout(id) != Layout::rows) return id;
    const auto [at, added] = gathered_.try_emplace(id);
    if (added)
      at->second = ops::gather_rows(builder_, module_[id].name + ".gather", id, batch_, length_,
                                    over_tensor(mesh_));
    return at->second;
  }

  // A rank's block of tokens of the sum over all ranks, in the place of what each of them made.
  ValueId scattered(ValueId id) {
    const ValueId rows =
        ops::scatter_rows(builder_, module_[id].name + ".scatter", id, over_tensor(mesh_));
    layouts_[rows] = Layout::rows;
    replaced_[id] = rows;
    return rows;
  }

  void look_up(Op& op) {
    const ValueId table = op.inputs[port(*op.def, "table")];
    cut_words(table);
    op.attrs.set("first", first_word(table));
    op.attrs.set("words", whole_of(table)[0]);
    if (mesh_.part > 0) op.attrs.set("others_here", false);
    const ValueId made = op.outputs[0];
    add(op, Layout::whole);
    scattered(made);
  }

  void cut_by_outputs(Op& op) {
    op.inputs[0] = gathered(op.inputs[0]);
    if (op.inputs[port(*op.def, "residual")].valid())
      refuse("'{}' adds to what ranks share", op.name);
    std::vector<OutputRange> ranges;
    std::vector<int64_t> sizes;
    for (const OutputPart& part : parts_of(op.outputs[0])) {
      ranges.push_back(range_of(part));
      sizes.push_back(part.units * part.each);
    }
    cut_outputs(op, ranges, sizes);
    add(op, Layout::features);
  }

  void cut_by_inputs(Op& op) {
    ValueId& residual = op.inputs[port(*op.def, "residual")];
    const ValueId stream = std::exchange(residual, {});
    if (op.inputs[port(*op.def, "bias")].valid() && mesh_.part > 0)
      op.attrs.set(ops::kBiasHere, false);
    cut_inputs(op);
    const ValueId made = op.outputs[0];
    const std::string name = op.name;
    add(op, Layout::whole);
    const ValueId rows = scattered(made);
    if (!stream.valid()) return;
    const ValueId sum = ops::add(builder_, name + ".residual", rows, stream);
    layouts_[sum] = Layout::rows;
    replaced_[made] = sum;
  }

  void on_features(Op& op) {
    const bool first_alone = layout(op.inputs[0]) == Layout::features &&
                             std::ranges::count_if(op.inputs, [&](ValueId id) {
                               return id.valid() && layout(id) != Layout::whole;
                             }) == 1;
    if (op.def->features == Features::together || !first_alone)
      refuse("{} '{}' needs all features of a token", op.def->kind, op.name);
    if (op.def->features == Features::in_heads) {
      const int64_t H = op.attrs.i("heads"), K = op.attrs.i("kv_heads");
      for (const ValueId id : op.inputs) {
        if (!id.valid() || !is_parameter(id)) continue;
        if (module_[id].type.shape != Shape{op.attrs.i("head_dim")})
          refuse("{} '{}' needs all heads of a token", op.def->kind, op.name);
        set_partial(id);
      }
      op.attrs.set("heads", H / mesh_.tp);
      op.attrs.set("kv_heads", std::max<int64_t>(K / mesh_.tp, 1));
      if (op.attrs.has("p") && mesh_.part > 0)
        op.attrs.set("first_head", mesh_.part * (H / mesh_.tp));
    }
    add(op, Layout::features);
  }

  void on_rows(Op& op) {
    const bool drops = op.def == &ops::dropout_def;
    const bool by_rows = drops || std::ranges::any_of(op.def->splits, [](const Split& split) {
                           return split.axis == "rows";
                         });
    for (const ValueId id : op.inputs) {
      if (!id.valid() || layout(id) == Layout::rows) continue;
      if (is_parameter(id)) {
        set_partial(id);
      } else if (!by_rows || module_[id].type.shape.rank() > 0) {
        refuse("{} '{}' needs all tokens", op.def->kind, op.name);
      }
    }
    if (drops) {
      op.attrs.set("first_row", mesh_.part * (batch_ * length_ / mesh_.tp));
      op.attrs.set("rows", length_);
    }
    add(op, Layout::rows);
  }

  // Does it make logits, which the loss alone reads?
  bool is_head(const Op& op) const {
    const auto found = readers_.find(op.outputs[0]);
    return found != readers_.end() && found->second.size() == 1 &&
           ops_[found->second[0]].def == &ops::cross_entropy_def;
  }

  // Logits of all tokens are scratch of the loss, of this rank's words.
  void lose_logits(const Op& op) {
    const auto made = heads_.find(op.inputs[port(*op.def, "logits")]);
    if (made == heads_.end()) refuse("{} '{}' needs all words", op.def->kind, op.name);
    lose(op, made->second, op.inputs[port(*op.def, "targets")], batch_ * length_);
  }

  // `linear`: what has x, the head's weight and its bias.
  void lose(const Op& op, const Op& linear, ValueId targets, int64_t chunk) {
    const auto in = [&](std::string_view name) { return linear.inputs[port(*linear.def, name)]; };
    const ops::LinearCrossEntropy head{.x = gathered(in("x")),
                                       .weight = in("weight"),
                                       .targets = targets,
                                       .bias = in("bias"),
                                       .chunk = chunk};
    cut_words(head.weight);
    if (head.bias.valid()) cut_words(head.bias);
    const ops::VocabularyPart part{
        .first = first_word(head.weight), .words = whole_of(head.weight)[0], .ranks = mesh_.tp};
    const ValueId stats = ops::vocabulary_stats(builder_, op.name + ".stats", head, part);
    const ValueId all =
        ops::all_gather(builder_, op.name + ".stats.gather", stats, over_tensor(mesh_));
    replaced_[op.outputs[0]] = ops::vocabulary_loss(builder_, op.name + ".all", head, part, all);
  }

  // --- parameters -------------------------------------------------------------------------------

  const Shape& whole_of(ValueId parameter) const {
    const Value& value = module_[parameter];
    return value.param->cut.on() ? value.param->cut.whole : value.type.shape;
  }

  // The same in every program.
  void cut(ValueId parameter, const Shape& here, TensorCut cut) {
    Value& value = module_[parameter];
    cut.whole = whole_of(parameter);
    if (value.param->cut == cut) return;
    if (value.param->cut.on() || value.param->cut.partial)
      throw internal_error("'{}' is cut in two ways", value.name);
    Param param = *value.param;
    param.cut = std::move(cut);
    value.param = std::make_shared<const Param>(std::move(param));
    value.type.shape = here;
  }

  void set_partial(ValueId parameter) {
    Value& value = module_[parameter];
    if (value.param->cut.partial) return;
    if (value.param->cut.on()) throw internal_error("'{}' is cut in two ways", value.name);
    Param param = *value.param;
    param.cut.partial = true;
    value.param = std::make_shared<const Param>(std::move(param));
  }

  int64_t first_word(ValueId parameter) const {
    return mesh_.part * ceil_div(whole_of(parameter)[0], mesh_.tp);
  }

  // Rows of a table, or elements of a bias; after the last word is padding.
  void cut_words(ValueId parameter) {
    const Shape whole = whole_of(parameter);
    const int64_t rows = ceil_div(whole[0], mesh_.tp), width = whole.elements() / whole[0];
    const int64_t first = first_word(parameter);
    const int64_t words = std::clamp<int64_t>(whole[0] - first, 0, rows);
    std::vector<int64_t> here(whole.dims().begin(), whole.dims().end());
    here[0] = rows;
    TensorCut cut_here;
    if (words > 0) cut_here.boxes = {{.width = words * width, .whole_first = first * width}};
    cut(parameter, Shape(here), std::move(cut_here));
  }

  void cut_outputs(const Op& op, const std::vector<OutputRange>& ranges,
                   const std::vector<int64_t>& sizes) {
    const ValueId weight = op.inputs[port(*op.def, "weight")];
    const ValueId bias = op.inputs[port(*op.def, "bias")];
    const ops::WeightLayout whole = ops::WeightLayout::of(whole_of(weight), op.attrs);
    ops::WeightLayout here = whole;
    here.out = 0;
    for (const OutputRange& range : ranges) here.out += range.size;
    TensorCut of_weight, of_bias;
    int64_t first = 0, whole_first = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      const OutputRange& range = ranges[i];
      const int64_t from = whole_first + range.first;
      of_weight.boxes.push_back(whole.in_out ? Box{.rows = whole.in,
                                                   .width = range.size,
                                                   .first = first,
                                                   .stride = here.out,
                                                   .whole_first = from,
                                                   .whole_stride = whole.out}
                                             : Box{.width = range.size * whole.in,
                                                   .first = first * whole.in,
                                                   .whole_first = from * whole.in});
      of_bias.boxes.push_back({.width = range.size, .first = first, .whole_first = from});
      if (range.sharers > 1 && of_weight.repeats == 1) {
        if (whole.in_out)
          refuse("'{}' is stored [in, out]: its keys and values cannot be on several ranks",
                 op.name);
        of_weight.repeats = of_bias.repeats = range.sharers;
        of_weight.repeated_from = first * whole.in;
        of_bias.repeated_from = first;
      }
      first += range.size;
      whole_first += sizes[i];
    }
    cut(weight, here.shape(), std::move(of_weight));
    if (bias.valid()) cut(bias, {here.out}, std::move(of_bias));
  }

  void cut_inputs(const Op& op) {
    const ValueId weight = op.inputs[port(*op.def, "weight")];
    const ops::WeightLayout whole = ops::WeightLayout::of(whole_of(weight), op.attrs);
    ops::WeightLayout here = whole;
    here.in = whole.in / mesh_.tp;
    const int64_t first = mesh_.part * here.in;
    TensorCut cut_here;
    cut_here.boxes = {whole.in_out
                          ? Box{.width = here.in * whole.out, .whole_first = first * whole.out}
                          : Box{.rows = whole.out,
                                .width = here.in,
                                .stride = here.in,
                                .whole_first = first,
                                .whole_stride = whole.in}};
    cut(weight, here.shape(), std::move(cut_here));
  }

  Module& module_;
  const Mesh& mesh_;
  Builder builder_;
  std::vector<Op> ops_;
  int64_t batch_ = 0, length_ = 0;
  std::map<ValueId, std::vector<size_t>> readers_;
  std::map<ValueId, Layout> layouts_;
  std::map<ValueId, ValueId> replaced_;  // what stands for a value of the model
  std::map<ValueId, ValueId> gathered_;
  std::map<ValueId, Op> heads_;  // by the logits that they would make
};

}  // namespace

void require_tokens_divide(int64_t batch, int64_t length, const Mesh& mesh) {
  if (checked_mul(batch, length, "the micro-batch") % mesh.tp == 0) return;
  const int64_t unit = mesh.tp / std::gcd(mesh.tp, length);
  throw usage_error("--tp {}: {} x {} tokens of a micro-batch do not divide over {} ranks", mesh.tp,
                    batch, length, mesh.tp)
      .hint(fmt::format("--batch {} would do, or --seq {}", round_up(batch, unit),
                        round_up(length, mesh.tp)));
}

Forward tensor_parallel(Module& module, std::string_view program, Forward forward,
                        const Mesh& mesh) {
  return mesh.tp > 1 ? TensorParallel(module, program, mesh).run(forward) : forward;
}

}  // namespace snug
