#!/usr/bin/env bash
# Does what `snug fit` says hold on this GPU? For five models at a pinned recipe: another process holds all memory but the
# budget, and `snug train` with one that limits nothing must run with the batch that fit names and be refused one more
# sequence: one that the memory could not hold, with the context as it was measured here. Half a minute on an H200.
#
#   bench/fit_gpu.sh        Build first: ./dev build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly SNUG=build/snug
readonly HOLD=build/bench/hold_gpu
readonly MODELS="gpt2:8.25GiB:1024 gpt2-medium:14GiB:1024 bert-large:10GiB:512 qwen2.5-0.5b:12GiB:1024 gpt2-large:22GiB:1024"
readonly PINNED="--device cuda --accum 1 --recompute none --attention flash --loss chunked --precision bf16"
export SNUG_NO_TUNE=1
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
failed=0

field() { sed -n "s/^ *\"$1\": \([0-9]*\),\{0,1\}$/\1/p" "$2" | head -1; }

# train MODEL SEQ BATCH: two steps with a budget beyond any GPU's memory; its words to $work/train. Gives the exit code.
train() {
  local status=0
  # shellcheck disable=SC2086  # a list of words
  "$SNUG" train "$1" --seq "$2" --batch "$3" --steps 2 --budget 1000000GiB $PINNED >"$work/train" 2>&1 || status=$?
  echo "$status"
}

# The context of the last run, in bytes: "... + context 512.34 MiB (driver, libraries) = ...".
context() { sed -n 's/.* + context \([0-9.]*\) MiB .*/\1/p' "$work/train" | awk '{ printf "%d", $1 * 1048576 }'; }

# check MODEL BUDGET SEQ
check() {
  local model=$1 budget=$2 seq=$3 batch arena next total room measured runs more verdict=ok
  [[ $(train "$model" "$seq" 1) == 0 ]] || { cat "$work/train" && return 1; }
  measured=$(context)
  [[ -n $measured ]] || { echo "$model: the run did not say what its context took" && return 1; }
  # shellcheck disable=SC2086
  "$SNUG" fit "$model" --of batch --seq "$seq" --budget "$budget" $PINNED --json >"$work/fit"
  batch=$(field batch "$work/fit") arena=$(field arena_bytes "$work/fit") next=$(field next_bytes "$work/fit")
  total=$(field budget_bytes "$work/fit")
  room=$((total - $(field context_bytes "$work/fit")))
  ((next + measured > total)) || { echo "$model: $budget does not tell $batch from one more" && return 1; }

  mkfifo "$work/ask"
  "$HOLD" "$total" <"$work/ask" >"$work/held" &
  exec 3>"$work/ask"
  until [[ -s $work/held ]] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
  runs=$(train "$model" "$seq" "$batch")
  cp "$work/train" "$work/runs"
  more=$(train "$model" "$seq" $((batch + 1)))
  exec 3>&-
  wait $! || verdict=FAILED
  rm "$work/ask"
  [[ $runs == 0 && $more == 3 ]] || verdict=FAILED
  printf '%-14s %-6s room %6d MiB  context %4d MiB  --batch %3d: %6d MiB, exit %d  one more: %6d MiB, exit %d  %s\n' \
    "$model" "$budget" $((room >> 20)) $((measured >> 20)) "$batch" $((arena >> 20)) "$runs" $((next >> 20)) "$more" "$verdict"
  [[ $verdict == ok ]] || { tail -n 3 "$work/runs" "$work/train" "$work/held" && return 1; }
}

for line in $MODELS; do
  IFS=: read -r model budget seq <<<"$line"
  check "$model" "$budget" "$seq" || failed=1
done
exit "$failed"
