// What every update of a module needs, in whichever program it is: the trained parameters, their
// masters and optimizer states, and the scalars that all updates share.
#pragma once

#include <string>
#include <vector>

#include "ops/optimizer/clip.h"
#include "ops/optimizer/update_rule.h"
#include "passes/sharding.h"
#include "settings/recipe.h"

namespace snug {

// How the ranks share a parameter: at the grain of its update.
Cut cut_of(const Module& module, ValueId parameter, const Recipe& recipe);

// Does a step end with the update of weights that belong to no layer, whose masters and state wait
// for the next backward (fold_updates.h)? The last micro-batches' program then has the update.
bool updates_weights_first(const Recipe& recipe);

// The program that writes gradients last.
ProgramRole last_training_program(const Module& module);

class Updates {
 public:
  struct Trained {
    std::string name;  // of the parameter, as the model calls it
    ValueId param;     // what forward and backward read
    ValueId master;    // fp32, where the parameter is rounded from it; else none
    ValueId grad;      // shared, carried through the step
    ops::UpdateRule rule;
    std::vector<ValueId> states;
    Cut cut;  // this rank updates its shard; none: all of it

    ValueId target() const { return master.valid() ? master : param; }  // what the rule works on
  };

  // Adds masters, states and scalars to the module; with masters also the program `load`, which
  // rounds them to the parameters. Throws a usage error when nothing is trained.
  Updates(Module& module, const Recipe& recipe);

  const std::vector<Trained>& trained() const { return trained_; }
  const Sharding& sharding() const { return sharding_; }
  const Mesh& mesh() const { return mesh_; }

  // The scalars of an update, all on the device.
  struct Numbers {
    ValueId lr, step, scale;
    ValueId finite;  // the update is made where it is not 0
  };
  Numbers numbers(ValueId step, const ops::Clip& clip) const {
    return {.lr = lr_, .step = step, .scale = clip.scale, .finite = clip.finite};
  }
  ValueId count() const { return updates_; }  // of updates, shared
  bool on_device(ValueId id) const;           // is it stored there?
  bool is_all_on_device(const Trained& t) const;
  // Is its weight updated before its master and state (updates_weights_first)?
  bool weight_is_first(const Trained& t) const;

  // The count of updates, one further where `finite` says so.
  ValueId advance(Builder& b, ValueId finite) const;
  // The norm of the gradients whose blocks `squares` sums, loss scale taken out; not finite where
  // the loss is not.
  ops::Clip clip(Builder& b, std::string_view name, const std::vector<ValueId>& squares,
                 double max_norm, ValueId loss) const;
  void bind_norm(ValueId norm) const;  // to the shared value that is read after a step
  // One parameter's update from `grad`, which also rounds it where it has a master.
  void emit(Builder& b, const Trained& t, ValueId grad, const Numbers& numbers) const;
  // A part of what this rank updates of a parameter: all of it where nothing has to be prefetched.
  struct Slice {
    int64_t first = 0, elements = 0;
  };
  // Where some of what its update needs is offloaded, never all of it is in transit.
  std::vector<Slice> slices_of(const Trained& t) const { return slices_of(t, t.rule.grain); }
  void emit(Builder& b, const Trained& t, const Slice& slice, const Numbers& numbers) const {
    emit(b, t, slice, t.grad, numbers);
  }
  // All slices, and then the whole parameter from all ranks where each has updated its shard of it.
  void emit_all(Builder& b, const Trained& t, const Numbers& numbers) const;
  // Every rank's shard of a parameter that all have whole; `own`: this one's, as it is now. None where
  // each has its shard alone, or all update all of it.
  ValueId gather(Builder& b, const Trained& t, ValueId own) const;
  // A version of a whole gradient, of whatever shape, in the parameter's; a shard's as it is.
  ValueId shaped(Builder& b, const Trained& t, ValueId grad) const;
  // Of the elements that this rank updates.
  ValueId own_part(Builder& b, const Trained& t, ValueId id) const {
    return part_of(b, t, id, {0, elements_of(t)});
  }

 private:
  void collect(const Recipe& recipe);
  void emit(Builder& b, const Trained& t, const Slice& slice, ValueId grad,
            const Numbers& numbers) const;
  // The update's output that is the parameter's next version.
  ValueId version_of(const Op& update, ValueId param) const;
  ops::Update update_of(const Trained& t, ValueId grad, const Numbers& numbers) const;
  int64_t elements_of(const Trained& t) const;  // that this rank updates
  // Of whole grains; of all elements where the grain is 0.
  std::vector<Slice> slices_of(const Trained& t, int64_t grain) const;
  // `per`: elements of the parameter for each of the value's own.
  ValueId part_of(Builder& b, const Trained& t, ValueId id, const Slice& slice,
                  int64_t per = 1) const;
  void add_masters(bool step_only);
  ValueId seed();

  Module& module_;
  const Offload& offload_;
  const Sharding& sharding_;
  const Mesh& mesh_;
  bool weights_first_ = false;
  int64_t slice_ = 0;  // elements that an update takes at once of what is not all on the device
  std::vector<Trained> trained_;
  ValueId lr_, norm_, updates_, loss_scale_, seed_;
};

}  // namespace snug
