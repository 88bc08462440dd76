#!/usr/bin/env bash
# Everything that the documents say of one GPU, measured in one run: about 30 minutes on an H200 with PyTorch installed,
# and 20 more for the parts that are not run unless they are given.
#
#   bench/gpu_report.sh FILE [PART...]     PART: peers, rooflines, ladder, memory, planner, tests, sanitizers; all unless given
#                                          and exact, calibration, sevens, fourteen, thirty_two, overhead, activations,
#                                          moved, best: offloaded values
#
# Raw output goes to FILE, with date, driver and commit; how each part ended is printed. Build first: ./dev build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SNUG=build/snug
readonly BF16="--precision bf16 --master none --state-dtype bf16 --grad-dtype bf16"
readonly MODELS="qwen2.5-0.5b:32 qwen2.5-1.5b:16 qwen2.5-7b:4" # name:micro-batch
out=${1:?a file for the raw output, such as bench/results/DATE-GPU.txt}
shift
parts=${*:-peers rooflines ladder memory planner tests sanitizers}
failed=0

# run COMMAND...: its output to the file, its end to the terminal.
run() {
  local start=$SECONDS status=0
  printf '\n$ %s\n' "$*" >>"$out"
  "$@" >>"$out" 2>&1 || status=$?
  printf '%4d s  exit %d  %s\n' $((SECONDS - start)) "$status" "$*"
  ((status == 0)) || failed=1
}

# for_models OPTIONS...: snug bench on each of the three, 4 micro-batches of 1024 tokens.
for_models() {
  local model
  for model in $MODELS; do run "$SNUG" bench "${model%:*}" --batch "${model#*:}" --accum 4 --seq 1024 "$@"; done
}

peers() { for_models --peer torch:transformers,compile; }
rooflines() { for_models --roofline; }
ladder() { run "$SNUG" ladder qwen2.5-1.5b --device cuda --batch 4 --seq 1024 --steps 3 --tf32; }

# The last line of a run says what was planned, what the context took and what is in use.
memory() {
  # shellcheck disable=SC2086  # a list of words
  run "$SNUG" train qwen2.5-0.5b --device cuda --batch 32 --accum 4 --steps 3 $BF16
  # shellcheck disable=SC2086
  run "$SNUG" train qwen2.5-1.5b --device cuda --batch 16 --accum 4 --steps 3 --budget 20GiB $BF16
}
planner() {
  run "$SNUG" calibrate --device cuda
  run bench/planner.py truth cuda --steps 5
  run bench/planner.py choice cuda --steps 5
  run bench/fit_gpu.sh
}

# Offloaded values: the same bits, and what the 7B, 14B and 32B do in memory that does not hold them.
readonly SYNTHETIC="--seq 1024 --data synthetic --device cuda"
train() { run "$SNUG" train "$@"; }
exact() { run build/snug_gpu_train_test --gtest_filter='*GpuOffloadIsExact*:*Stages*'; }
calibration() { run "$SNUG" calibrate --device cuda --seconds 60; }
# shellcheck disable=SC2086  # lists of words, here and below
sevens() {
  local large="qwen2.5-7b $SYNTHETIC --grad-dtype bf16 --global-batch 64" gib
  train $large --steps 4 --budget 24GiB
  for gib in 24 16 12; do train $large --steps 4 --budget ${gib}GiB --master none --state-dtype bf16; done
}
# shellcheck disable=SC2086
fourteen() {
  train qwen2.5-14b $SYNTHETIC --grad-dtype bf16 --global-batch 64 --steps 3 --budget 24GiB --master none --state-dtype bf16
}
# shellcheck disable=SC2086
thirty_two() {
  train qwen2.5-32b $SYNTHETIC --grad-dtype bf16 --global-batch 16 --steps 3 --budget 24GiB --master none \
    --optimizer adamw8bit --update-in-backward --clip 0 --offload-dir "${SNUG_DISK:-/tmp}"
}
# What the state of the 1.5B costs on the host, at 64 and 512 sequences a step.
# shellcheck disable=SC2086
overhead() {
  local run="qwen2.5-1.5b $SYNTHETIC --batch 16" state="--offload optimizer,master"
  train $run --accum 4 --steps 8 --offload none
  train $run --accum 4 --steps 8 $state --micro-order vertical --offload-ahead 4
  train $run --accum 32 --steps 4 --offload none
  train $run --accum 32 --steps 4 $state --micro-order groups:4 --offload-ahead 2
}
# At half of what the 1.5B needs, without offloading and with what is chosen.
# shellcheck disable=SC2086
activations() {
  local run="qwen2.5-1.5b $SYNTHETIC --batch 16 --accum 4 --steps 6 --budget 19GiB $BF16"
  train $run --offload none
  train $run
}
moved() { run bench/planner.py moved cuda --steps 5; }
best() { run bench/planner.py choice cuda --only 'precision bf16 --grad' --steps 4; }

tests() { run env SNUG_NO_TUNE=1 build/snug_gpu_test --gtest_brief=1 && run build/snug_gpu_train_test --gtest_brief=1; }
sanitizers() { run tools/gpu_sanitize.sh; }

command -v nvidia-smi >/dev/null || { echo "gpu_report: no NVIDIA GPU answers here (nvidia-smi)" >&2 && exit 5; }
{
  date -u
  echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)"
  nvidia-smi --query-gpu=name,driver_version,memory.total,power.limit --format=csv,noheader
  "$SNUG" doctor
} >"$out"
for part in $parts; do
  declare -F "$part" >/dev/null || { echo "gpu_report: '$part' is no part of it" >&2 && exit 2; }
  "$part"
done
exit "$failed"
