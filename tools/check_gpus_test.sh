#!/usr/bin/env bash
# The check of kernels for every GPU can fail: it finds what one chip alone refuses, and what one architecture does not
# compile; a kernel without fault passes.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# expect pass|fail WORDS CODE: WORDS are in what the check says.
expect() {
  local got=pass
  echo "$3" >"$work/kernel.cu"
  "$tools/check_gpus.sh" "$work/kernel.cu" >"$work/output" 2>&1 || got=fail
  if [[ $got != "$1" ]] || ! grep -q "$2" "$work/output"; then
    echo "expected to $1, with the words '$2': $3" && cat "$work/output" && exit 1
  fi
}

expect pass 'files compile for' '__global__ void __launch_bounds__(768, 2) whole(float* x) { *x = 1; }'
# An A100 holds two such blocks, a 3090 one.
expect fail 'sm_86' '__global__ void __launch_bounds__(1024, 2) planted(float* x) { *x = 1; }'
if grep -q 'sm_80:' "$work/output"; then echo "8.0 holds 2,048 threads" && cat "$work/output" && exit 1; fi
expect fail 'sm_80' '__global__ void planted(float* x) { asm volatile("griddepcontrol.wait;"); *x = 1; }'
expect fail 'compute_120' '#if __CUDA_ARCH__ == 1200
#error planted
#endif'
