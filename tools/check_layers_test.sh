#!/usr/bin/env bash
# A check that cannot fail checks nothing: breaks every rule of check_layers.sh once, in a tree of its own.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect WORDS FILE LINE: FILE holding LINE must be refused with WORDS; without WORDS, accepted.
expect() {
  rm -rf "${tree:?}/src" "${tree:?}/cli"
  mkdir -p "$tree/cli" "$tree/$(dirname "$2")"
  printf '// line 1\n%s\n' "$3" > "$tree/$2"
  local said status=0
  said=$("$tools/check_layers.sh" "$tree" 2>&1) || status=$?
  if [[ -z $1 && $status != 0 ]] || [[ -n $1 && ($status == 0 || $said != *"$1"*) ]]; then
    printf 'FAILED: %s with %s\n  expected: %s\n  said: %s\n' "$2" "$3" "${1:-nothing}" "$said"
    exit 1
  fi
}

expect ''                              src/ir/a.cpp          '#include "base/error.h"'
expect ''                              src/ops/norm/a.cpp    '#include "ops/random.h"'
expect ''                              src/ops/registry.cpp  '#include "ops/norm/rms_norm.h"'
expect ''                              src/ir/a_test.cpp     '#include "ops/testing/op_check.h"'
expect ''                              src/hal/cpu/a.cpp     'void* p = mmap(nullptr, n);'
expect ''                              src/ir/a.cpp          'x.malloc(3);  // a method; malloc(3) in a comment'
expect 'src/ir/a.cpp:2: ir may not'    src/ir/a.cpp          '#include "ops/registry.h"'
expect 'it may use: base hal'          src/hal/cpu/a.cpp     '#include "ir/program.h"'
expect 'ops/norm may not'              src/ops/norm/a.cpp    '#include "ops/linear/linear.h"'
expect 'base may not'                  src/base/a.h          '  #  include "ir/type.h"'
expect 'for tests only'                src/ops/norm/a.cpp    '#include "ops/testing/op_check.h"'
expect 'may not print'                 src/train/a.cpp       '#include "base/log.h"'
expect ''                              src/report/a.cpp      '#include "base/log.h"'
expect 'only the edge may'             src/search/a.cpp      '#include "settings/parse.h"'
expect 'only the edge may'             src/verbs/a.cpp       '#include "snug/set_option.h"'
expect ''                              src/settings/a.cpp    '#include "settings/parse.h"'
expect 'passes may not include'        src/passes/a.cpp      '#include "techniques/offload/row.h"'
expect ''                              src/passes/a.cpp      '#include "techniques/offload/settings.h"'
expect ''                              src/techniques/zero/zero.cpp     '#include "passes/updates.h"'
expect 'may not include'               src/techniques/zero/settings.cpp '#include "passes/updates.h"'
expect 'may not include'               src/techniques/zero/zero.cpp     '#include "techniques/offload/offload.h"'
expect 'compile may not'               src/compile/a.cpp     '#include "search/search.h"'
expect 'must be named from src/'       src/ir/a.cpp          '#include "type.h"'
expect 'must be named from src/'       src/ir/a.cpp          '#include "../base/error.h"'
expect 'has no line'                   src/novel/a.cpp       'int x;'
expect 'raw memory'                    src/search/meshes/a.cpp 'auto* p = reinterpret_cast<const int*>(bytes);'
expect 'raw memory'                    src/cost/a.h          'std::memcpy(to, from, n);'
expect 'raw memory'                    src/placement/a.h     'auto* p = static_cast<const float*>(address);'
expect ''                              src/page/a.cpp        'auto* text = reinterpret_cast<const char*>(block.data());'
expect ''                              src/formats/a.cpp     'std::memcpy(to, from, n);'
expect 'allocates by hand'             src/runtime/a.cpp     'float* p = (float*)malloc(4);'
expect 'allocates by hand'             src/ops/norm/a.cpp    'void* p = std::aligned_alloc(64, n);'
for call in 'malloc(n)' 'calloc(n, 4)' 'realloc(p, n)' 'posix_memalign(&p, 64, n)' 'mmap(nullptr, n)' \
            'cudaMalloc(&p, n)' 'cudaMalloc<float>(&p, n)' 'cudaMallocAsync(&p, n, stream)' 'cudaMallocHost(&p, n)' \
            'cudaMallocManaged(&p, n)' 'cudaHostAlloc(&p, n, 0)' '::operator new(n)' 'operator new[](n)' \
            'new char[n]' 'new float [n]' 'new std::byte[n]' 'new std::pair<int, int>[n]' 'new (std::nothrow) char[n]' \
            'std::make_unique<float[]>(n)' 'std::make_unique_for_overwrite<std::byte[]>(n)' 'std::make_shared<int[]>(n)'; do
  expect 'allocates by hand'           src/kernels/cuda/a.cu "  const auto status = $call;"
  expect ''                            src/hal/cuda/a.cpp    "  const auto status = $call;"
  expect ''                            src/ir/a_test.cpp     "  const auto status = $call;"
  expect ''                            src/ir/a.cpp          "  say(\"$call\");  // $call"
done
expect ''                              src/ir/a.cpp          'auto p = std::make_unique<Plan>(new_values[i], renew[i]);'
expect ''                              src/ir/a.cpp          'Node* n = new Node(parts[i]);'
echo "check_layers: every rule refuses what it should"
