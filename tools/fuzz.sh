#!/usr/bin/env bash
# Fuzzes one parser and prints one line: how often it ran, what it newly reached, what was found. Fails on a finding.
#
#   tools/fuzz.sh BUILD TARGET SECONDS      BUILD: a folder with libFuzzer programs; TARGET: a file tests/fuzz/TARGET.cpp
#
# Inputs that reach something new are kept in .cache/fuzz/TARGET for the next time, findings next to it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly program=$1/snug_fuzz_$2 target=$2 seconds=$3 kept=.cache/fuzz/$2 log=.cache/fuzz/$2.log
mkdir -p "$kept"

# Leaks are looked for where the corpus is replayed (./dev test): a look takes 3 s on 64-bit ARM. No input is larger than
# 16 KiB: a parser that allocates 64 MiB believed a size that its file claims.
status=0
ASAN_OPTIONS=detect_leaks=0:malloc_context_size=5 UBSAN_OPTIONS=print_stacktrace=1 "$program" \
  -max_total_time="$seconds" -max_len=16384 -timeout=10 -malloc_limit_mb=64 -rss_limit_mb=2048 -print_final_stats=1 \
  -dict="tests/fuzz/$target.dict" -artifact_prefix=".cache/fuzz/$target-" "$kept" "tests/fuzz/corpus/$target" \
  >"$log" 2>&1 || status=$?

# found PATTERN: what follows it in the log, on each line that has it.
found() { sed -nE "s/.*$1 *([^ ]+).*/\1/p" "$log"; }
before=$(found 'INITED cov:') after=$(found ' cov:' | tail -n 1) input=$(found 'Test unit written to')
report=$(printf '   %-20s %10d executions, coverage %d + %d, ' "$target" "$(found number_of_executed_units:)" \
  "${before:-0}" $((${after:-0} - ${before:-0})))
if ((status == 0)); then
  echo "${report}no finding"
else
  echo "${report}a finding (all of it in $log)
$(grep -m 3 -E 'what\(\):|SUMMARY|ERROR|runtime error|Assertion' "$log")
${input:+      once more: $program $input}"
  exit 1
fi
