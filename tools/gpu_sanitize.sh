#!/usr/bin/env bash
# Runs compute-sanitizer over the CUDA kernels; one line per tool, "clean" or the number of errors. Fails if one is not clean.
#
#   tools/gpu_sanitize.sh [MODEL]     MODEL: a model directory or config, two layers are enough: memcheck of its training
#
# racecheck and initcheck look at kernels of ours alone: cuBLASLt's and cuDNN's are left to memcheck. SANITIZE_TESTS
# selects tests (a gtest filter); logs stand in .cache/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TESTS=${SANITIZE_TESTS:-OpOnCuda.*}
readonly LIBRARIES='*linear*:*attention*' # ops whose products and attention are made by libraries

if ! command -v compute-sanitizer >/dev/null; then
  echo "compute-sanitizer is not here: it comes with the CUDA toolkit" >&2
  exit 3
fi
mkdir -p .cache
failed=0

# sanitize NAME TOOL COMMAND...: the sanitizer's findings make its exit code 86, the command's own failure is told apart.
sanitize() {
  local name=$1 tool=$2 log=.cache/sanitize-$1.log status=0 errors
  shift 2
  compute-sanitizer --tool "$tool" --error-exitcode 86 --print-limit 20 "$@" >"$log" 2>&1 || status=$?
  # ERROR SUMMARY: N errors; RACECHECK SUMMARY: N hazards displayed (E errors, W warnings)
  errors=$(sed -nE 's/^=+ (ERROR|RACECHECK) SUMMARY: ([0-9]+) .*/\2/p' "$log" | tail -1)
  if [[ $status == 0 && ${errors:-none} == 0 ]]; then
    echo "$name: clean"
    return
  fi
  failed=1
  echo "$name: ${errors:-no summary, so unknown} errors, exit code $status; see $log"
}

sanitize memcheck memcheck build/snug_gpu_test --gtest_filter="$TESTS"
sanitize racecheck racecheck build/snug_gpu_test --gtest_filter="$TESTS-$LIBRARIES"
# Poison would look like content.
SNUG_NO_POISON=1 sanitize initcheck initcheck build/snug_gpu_test --gtest_filter="$TESTS-$LIBRARIES"
if [[ $# -gt 0 ]]; then
  sanitize memcheck-train memcheck build/snug train "$1" --device cuda --data src --batch 2 --seq 64 --steps 3 \
    --out .cache/sanitize-train
fi
exit $failed
