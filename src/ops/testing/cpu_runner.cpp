#include <gtest/gtest.h>

#include <algorithm>

#include "ops/testing/op_runner.h"
#include "ops/testing/run_op.h"

namespace snug {

std::vector<Shared> with_demanded(const Op& op, std::vector<Shared> shared) {
  for (const Alias& a : op.def->alias) {
    if (a.must && op.inputs[static_cast<size_t>(a.input)].valid())
      shared.push_back({a.output, a.input});
  }
  return shared;
}

bool is_written(const std::vector<Shared>& shared, size_t i) {
  return std::ranges::any_of(shared,
                             [&](const Shared& s) { return s.input == static_cast<int>(i); });
}

Buffers CpuRunner::run(const OpCase& c, const Op& op, const Buffers& values,
                       const std::vector<Shared>& granted) {
  const std::vector<Shared> shared = with_demanded(op, granted);
  Buffers inputs, outputs;
  std::vector<Tensor> in, out;
  for (ValueId id : op.inputs)
    inputs.push_back(id.valid() ? values[static_cast<size_t>(id.index)] : Guarded(0));
  for (ValueId id : op.outputs) outputs.emplace_back(c.module[id].type.bytes());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId id = op.inputs[i];
    in.push_back(id.valid() ? Tensor{inputs[i].data(), &c.module[id].type} : Tensor{});
  }
  for (size_t o = 0; o < op.outputs.size(); ++o)
    out.push_back({outputs[o].data(), &c.module[op.outputs[o]].type});
  for (auto [o, i] : shared) out[static_cast<size_t>(o)].data = in[static_cast<size_t>(i)].data;

  Guarded scratch(cost_of(c.module, op, Backend::cpu).workspace);
  op.def->kernel(Backend::cpu,
                 kernel_dtype(c.module, op))(KernelArgs{in, out, scratch.span(), op.attrs});

  EXPECT_TRUE(scratch.intact()) << op.def->kind << " writes beyond its workspace of "
                                << scratch.size() << " bytes";
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(inputs[i].intact())
        << op.def->kind << " writes outside its input " << op.def->port_of_input(i).name;
    if (is_written(shared, i) || !op.inputs[i].valid()) continue;
    EXPECT_TRUE(inputs[i] == values[static_cast<size_t>(op.inputs[i].index)])
        << op.def->kind << " changes its input " << op.def->port_of_input(i).name;
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    EXPECT_TRUE(outputs[o].intact())
        << op.def->kind << " writes outside its output " << op.def->outputs[o].name;
  }
  for (auto [o, i] : shared) outputs[static_cast<size_t>(o)] = inputs[static_cast<size_t>(i)];
  return outputs;
}

std::vector<std::pair<std::string, Buffers>> CpuRunner::again(const OpCase& c, const Op& op,
                                                              const Buffers& values) {
  std::vector<std::pair<std::string, Buffers>> runs;
  for (const int threads : {1, 3}) {
    runs.emplace_back(fmt::format("on {} thread{}", threads, threads == 1 ? "" : "s"),
                      with_threads(threads, [&] { return run(c, op, values, {}); }));
  }
  return runs;
}

}  // namespace snug
