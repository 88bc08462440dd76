#!/usr/bin/env bash
# On a machine with a GPU: runs the GPU tests on the code and the paths that other cards take, and says what those cost.
# Under five minutes on an H200 with 16 cores. The normal build must be there (./dev build).
#
#   tools/gpu_cards.sh [CARD...]     cards of SNUG_GPU_AS (src/kernels/cuda/device_cards.cpp): rtx4090 and a100 unless given
#
#   ptx      a build from compute_80 PTX alone (./dev build --ptx), compiled for the GPU that is here when it is loaded
#   CARD     the normal build, with what a kernel may ask for capped to that card's
#
# Kernel tests of the cards run during the build, as they need little of the GPU; whole runs, which measure its memory,
# one after another. Kernels and the table take GEMMs' algorithms by rule, so that all rows have the same. Logs are in
# .cache/gpu-cards.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly LOGS=.cache/gpu-cards
readonly TRAIN="train gpt2 --data synthetic --device cuda --batch 16 --accum 1 --seq 1024 --precision bf16 --steps 12 --json"
readonly KERNEL_TESTS=(snug_gpu_test snug_ops_loss_test snug_kernels_cuda_test)
cards=("$@")
if (($# == 0)); then cards=(rtx4090 a100); fi
mkdir -p "$LOGS"
unset SNUG_GPU_AS
failed=0

for program in snug "${KERNEL_TESTS[@]}" snug_gpu_train_test; do
  [[ -x build/$program ]] || { echo "gpu_cards: no build/$program: ./dev build" >&2 && exit 2; }
done

# in_row ROW PROGRAM...: of its build, as its card, with a cache of its own.
in_row() {
  local row=$1 program=$2 setting=(SNUG_GPU_TEST=1 OMP_WAIT_POLICY=passive "XDG_CACHE_HOME=$PWD/$LOGS/cache")
  shift 2
  case $row in
    native) env "${setting[@]}" "build/$program" "$@" ;;
    ptx) env "${setting[@]}" "build-ptx/$program" "$@" ;;
    *) env "${setting[@]}" "SNUG_GPU_AS=$row" "build/$program" "$@" ;;
  esac
}

# kernel_tests ROW
kernel_tests() {
  local program status=0
  SNUG_NO_TUNE=1 run_tests "$1" snug_gpu_test || status=1
  for program in "${KERNEL_TESTS[@]:1}"; do run_tests "$1" "$program" "--gtest_filter=Cuda*" || status=1; done
  return $status
}

# run_tests ROW PROGRAM...: says how they ended; all their words are in a log.
run_tests() {
  local log=$LOGS/$1-$2.log start=$SECONDS status=0
  in_row "$@" --gtest_brief=1 >"$log" 2>&1 || status=$?
  echo "$1 $2: exit code $status, $((SECONDS - start)) s; $(grep -E '^\[ +(PASSED|FAILED|SKIPPED)' "$log" | tr -s ' \n' ' ')"
  ((status == 0)) || { tail -n 30 "$log" && return 1; }
}

# speed ROW: tokens/s, the median of the steps after the third, and the last loss.
speed() {
  # shellcheck disable=SC2086  # a list of words
  SNUG_NO_TUNE=1 in_row "$1" snug $TRAIN 2>"$LOGS/$1-train.log" | python3 -c '
import json, statistics, sys
steps = [json.loads(line) for line in sys.stdin if "\"tokens_per_s\"" in line]
rates = [step["tokens_per_s"] for step in steps]
print("%.0f %.5f" % (statistics.median(rates[3:]), steps[-1]["loss"]))'
}

# The build, during the cards' kernel tests.
jobs=()
./dev build --ptx snug "${KERNEL_TESTS[@]}" snug_gpu_train_test >"$LOGS/build-ptx.log" 2>&1 &
build=$!
for card in "${cards[@]}"; do
  kernel_tests "$card" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
if ! wait "$build"; then
  tail -n 30 "$LOGS/build-ptx.log"
  exit 1
fi
echo "built build-ptx after $SECONDS s: $(grep -o 'generate-code=[^ ]*' build-ptx/build.ninja | sort | uniq -c | tr -s ' ')"

kernel_tests ptx || failed=1
for row in ptx "${cards[@]}"; do run_tests "$row" snug_gpu_train_test || failed=1; done

printf '\n%-10s%12s%10s%12s   snug %s\n' "" tokens/s ratio "last loss" "${TRAIN% --json}"
native=
for row in native ptx "${cards[@]}"; do
  if ! measured=$(speed "$row"); then
    echo "$row: failed" && tail -n 5 "$LOGS/$row-train.log"
    failed=1
    continue
  fi
  native=${native:-${measured% *}}
  awk -v row="$row" -v native="$native" '{ printf "%-10s%12d%10.3f%12s\n", row, $1, $1 / native, $2 }' <<<"$measured"
done
if ((failed == 0)); then echo "passed, $SECONDS s"; else echo "FAILED, $SECONDS s"; fi
exit $failed
