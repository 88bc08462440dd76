#!/usr/bin/env bash
# Is learning harmed? The README's job (./dev run) under each technique that changes results, three seeds each: held-out
# loss, its mean, and how far that is from fp32 AdamW. Prints one line per run and a table.
#
#   ./dev build && bench/learning.sh [STEPS] | tee bench/results/DATE-learning.txt
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly STEPS=${1:-125} SEEDS="1 2 3" LR=1e-3
readonly THREADS=$((($(nproc) + 2) / 3))
# Lion has a rate of its own; its momentum is shorter than its authors' 0.99, for a job of 125 steps.
readonly LION="--lr 5e-4 --beta1 0.7 --beta2 0.85"

# name, most that the mean may differ (percent), options
rungs() {
  cat <<END
fp32 adamw|0|--lr $LR
bf16|1|--lr $LR --precision bf16
bf16 without master|1|--lr $LR --precision bf16 --master none
fp16|1|--lr $LR --precision fp16
adamw8bit|1|--lr $LR --optimizer adamw8bit
adam-mini|1|--lr $LR --optimizer adam-mini
bf16 state|1|--lr $LR --state-dtype bf16
int8 activations|1|--lr $LR --compress int8
lion|3|$LION --optimizer lion
END
}

# First and last held-out loss of one run. Seeds run side by side: results do not depend on the number of threads.
held_out() {
  # shellcheck disable=SC2086 # options are words
  build/snug train snug-tiny --device cpu --precision fp32 --data src --holdout 0.05 --batch 16 --seq 128 \
    --steps "$STEPS" --warmup 15 --json --threads "$THREADS" --seed "$1" $2 2>/dev/null |
    sed -n 's/.*"eval_loss":\([0-9.e+-]*\).*/\1/p' | sed -n '1p;$p' | tr '\n' ' '
}

# All seeds of one set of options: "first last first last ..."
all_seeds() {
  local seed folder
  folder=$(mktemp -d)
  for seed in $SEEDS; do held_out "$seed" "$1" >"$folder/$seed" & done
  wait
  cat "$folder"/*
  rm -r "$folder"
}

main() {
  echo "commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(date -u +%F), $STEPS steps, seeds $SEEDS"
  local table='' baseline='' name limit options losses
  while IFS='|' read -r name limit options; do
    losses=$(all_seeds "$options")
    echo "$name: held-out loss, first and last, seed by seed: $losses"
    baseline=${baseline:-$(awk '{print ($2 + $4 + $6) / 3}' <<<"$losses")}
    table+="$name|$limit|$baseline|$losses"$'\n'
  done < <(rungs)
  echo
  awk -F'|' 'NF {
    split($4, x, " "); mean = (x[2] + x[4] + x[6]) / 3; first = (x[1] + x[3] + x[5]) / 3
    off = 100 * (mean / $3 - 1); bad = $2 > 0 && off > $2
    printf "%-22s mean %.4f  fell by %4.1f %%  %+6.2f %% against fp32 adamw%s\n", $1, mean, 100 * (1 - mean / first), off,
           bad ? "  BEYOND " $2 " %" : ""
    failed = failed || bad
  } END { exit failed }' <<<"$table"
}

main
