#!/usr/bin/env bash
# Runs compute-sanitizer over the CUDA kernels; one line per tool, "clean" or the number of errors. Fails if one is not clean.
#
#   tools/gpu_sanitize.sh [MODEL]     MODEL: what memcheck trains two steps of; a model of two layers unless given
#
# Everything is 10 to 50 times slower here, so samples run in bf16 alone. racecheck and initcheck look at kernels of ours
# alone: cuBLASLt's and cuDNN's are left to memcheck. SANITIZE_TESTS selects tests (a gtest filter); logs are in .cache/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TESTS=${SANITIZE_TESTS:-OpOnCuda.*_bf16:AttentionOnTensorCores.*}
readonly TWICE='*chunked_attention*'      # the same kernels as flash_attention's
readonly LIBRARIES='*linear*:*attention*' # ops whose matmuls and attention are made by libraries
export SNUG_NO_TUNE=1                     # algorithms by rule: timing them would run each many times

if ! command -v compute-sanitizer >/dev/null; then
  echo "compute-sanitizer is not here: it comes with the CUDA toolkit" >&2
  exit 3
fi
mkdir -p .cache
failed=0

# sanitize NAME TOOL COMMAND...: the sanitizer's findings make its exit code 86, the command's own failure is told apart.
sanitize() {
  local name=$1 tool=$2 log=.cache/sanitize-$1.log status=0 errors start=$SECONDS
  shift 2
  compute-sanitizer --tool "$tool" --error-exitcode 86 --print-limit 20 "$@" >"$log" 2>&1 || status=$?
  # ERROR SUMMARY: N errors; RACECHECK SUMMARY: N hazards displayed (E errors, W warnings)
  errors=$(sed -nE 's/^=+ (ERROR|RACECHECK) SUMMARY: ([0-9]+) .*/\2/p' "$log" | tail -1)
  if [[ $status == 0 && ${errors:-none} == 0 ]]; then
    echo "$name: clean, $((SECONDS - start)) s"
    return
  fi
  failed=1
  if grep -q 'Device not supported' "$log"; then
    echo "$name: compute-sanitizer does not support the GPU as this machine gives it (gVisor, for one); see $log"
    return
  fi
  echo "$name: ${errors:-no summary, so unknown} errors, exit code $status; see $log"
}

# A config.json, each kind of layer small: biases, grouped heads, tied embeddings.
two_layers() {
  mkdir -p .cache/two-layers
  cat >.cache/two-layers/config.json <<'JSON'
{"model_type": "qwen2", "vocab_size": 256, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-06,
 "rope_theta": 10000.0, "tie_word_embeddings": true}
JSON
  echo .cache/two-layers/config.json
}

sanitize memcheck memcheck build/snug_gpu_test --gtest_filter="$TESTS-$TWICE"
sanitize racecheck racecheck build/snug_gpu_test --gtest_filter="$TESTS-$LIBRARIES"
# Poison would look like content.
SNUG_NO_POISON=1 sanitize initcheck initcheck build/snug_gpu_test --gtest_filter="$TESTS-$LIBRARIES"
sanitize memcheck-train memcheck build/snug train "${1:-$(two_layers)}" --device cuda --precision bf16 --data src \
  --batch 2 --seq 64 --accum 2 --steps 2
exit $failed
