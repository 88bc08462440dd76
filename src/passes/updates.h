// What every update of a module needs, in whichever program it is: the trained parameters, their
// masters and optimizer states, and the scalars that all updates share.
#pragma once

#include <string>
#include <vector>

#include "ops/optimizer/clip.h"
#include "ops/optimizer/update_rule.h"
#include "passes/passes.h"

namespace snug {

class Updates {
 public:
  struct Trained {
    std::string name;  // of the parameter, as the model calls it
    ValueId param;     // what forward and backward read
    ValueId master;    // fp32, where the parameter is rounded from it; else none
    ValueId grad;      // shared, carried through the step
    ops::UpdateRule rule;
    std::vector<ValueId> states;

    ValueId target() const { return master.valid() ? master : param; }  // what the rule works on
  };

  // Adds masters, states and scalars to the module; with masters also the program `load`, which
  // rounds them to the parameters. Throws a usage error when nothing is trained.
  Updates(Module& module, const Recipe& recipe);

  const std::vector<Trained>& trained() const { return trained_; }

  // The scalars of an update, all on the device.
  struct Numbers {
    ValueId lr, step, scale;
    ValueId finite;  // the update is made where it is not 0
  };
  Numbers numbers(ValueId step, const ops::Clip& clip) const {
    return {.lr = lr_, .step = step, .scale = clip.scale, .finite = clip.finite};
  }
  ValueId count() const { return updates_; }  // of updates, shared
  bool on_device(ValueId id) const;           // is its home there?
  bool is_all_on_device(const Trained& t) const;

  // The count of updates, one further where `finite` says so.
  ValueId advance(Builder& b, ValueId finite) const;
  // The norm of the gradients whose blocks `squares` sums, loss scale taken out; not finite where
  // the loss is not.
  ops::Clip clip(Builder& b, std::string_view name, const std::vector<ValueId>& squares,
                 double max_norm, ValueId loss) const;
  void bind_norm(ValueId norm) const;  // to the shared value that is read after a step
  // One parameter's update from `grad`, which also rounds it where it has a master.
  void emit(Builder& b, const Trained& t, ValueId grad, const Numbers& numbers) const;
  // A part of a parameter: all of it where nothing has to be brought.
  struct Slice {
    int64_t first = 0, elements = 0;
  };
  // Where some of what its update needs lives elsewhere, never all of it is on its way.
  std::vector<Slice> slices_of(const Trained& t) const { return slices_of(t, t.rule.grain); }
  void emit(Builder& b, const Trained& t, const Slice& slice, const Numbers& numbers) const;

 private:
  void collect();
  ops::Update update_of(const Trained& t, ValueId grad, const Numbers& numbers) const;
  int64_t elements_of(const Trained& t) const;
  // Of whole grains; of all elements where the grain is 0.
  std::vector<Slice> slices_of(const Trained& t, int64_t grain) const;
  ValueId part_of(Builder& b, ValueId id, const Slice& slice) const;
  void add_masters();
  ValueId seed();

  Module& module_;
  const Offload& offload_;
  int64_t slice_ = 0;  // elements that an update takes at once of what is not all on the device
  std::vector<Trained> trained_;
  ValueId lr_, norm_, updates_, loss_scale_, seed_;
};

}  // namespace snug
