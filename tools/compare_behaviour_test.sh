#!/usr/bin/env bash
# compare_behaviour_test.sh SNUG: a binary is the same as itself; one that changes a number, a name or an exit code is not.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
snug=$(realpath "$1")
command -v python3 > /dev/null || { echo "skipped: no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '[program]\n[words]\n[new fields]\n[intended]\n' > "$work/no_map"

# as_if SED: another binary, which answers as snug does but for what SED changes.
as_if() {
  printf '#!/usr/bin/env bash\nset -o pipefail\n"%s" "$@" 2> >(sed -E '"'%s'"' >&2) | sed -E '"'%s'"'\n' "$snug" "$1" "$1" > "$work/other"
  chmod +x "$work/other"
}

# expect STATUS WORDS MAP OPTION...: comparing snug with $work/other must end so, and say WORDS.
expect() {
  local wanted=$1 words=$2 map=$3 said status=0
  shift 3
  said=$(PYTHONDONTWRITEBYTECODE=1 "$tools/compare_behaviour.py" "$snug" "$work/other" --wording "$map" "$@" 2>&1) || status=$?
  if [[ $status != "$wanted" || $said != *"$words"* ]]; then
    printf 'FAILED: expected %s and "%s", but %s:\n%s\n' "$wanted" "$words" "$status" "$said"
    exit 1
  fi
}

as_if ''
expect 0 'the same' "$tools/compare_behaviour_map.txt" --settings 1 --losses 2 --fits 1 --ladders 1 --resumes 1 --seed 2
as_if 's/("max_live_bytes": *)/\11/'
expect 1 'max_live_bytes: ' "$work/no_map" --settings 1
as_if 's/("loss": *[0-9.]+)([0-8])([,}])/\19\3/'
expect 1 'steps[0].loss:' "$work/no_map" --settings 0 --losses 2
as_if 's/\bembedding\(/lookup(/'
expect 1 'program line' "$work/no_map" --settings 1
sed '/^\[program\]/a \\\\bembedding\\( => lookup(' "$work/no_map" > "$work/map"
expect 0 'the same' "$work/map" --settings 1
sed '/^\[intended\]/a plan => a test' "$work/no_map" > "$work/map"
expect 0 'intended: a test (1)' "$work/map" --settings 1
as_if 's/("(arena|next)_bytes": *)/\11/'
expect 1 'arena_bytes: ' "$work/no_map" --settings 0 --fits 1
as_if 's/("planned_bytes": *)/\11/'
expect 1 'rungs[0].planned_bytes: ' "$work/no_map" --settings 0 --ladders 1
as_if 's/("family": *")/\1x/'
expect 1 'models: [0].family: ' "$work/no_map" --settings 1
# Of a run that goes on: a step, what it saves, and what is said of it.
as_if 's/("loss": *)([0-9])/\11\2/'
expect 1 'steps[0].loss:' "$work/no_map" --settings 0 --resumes 1
as_if 's/("steps": *)/\11/'
expect 1 'checkpoint: ' "$work/no_map" --settings 0 --resumes 1
for saved in run.toml model.safetensors; do
  as_if ''
  printf 'for word; do [[ $word != */step-00000002 ]] || echo planted >> "${word%%/*}/%s"; done\n' "$saved" >> "$work/other"
  expect 1 "$saved" "$work/no_map" --settings 0 --resumes 1
done
printf '#!/usr/bin/env bash\nexit 2\n' > "$work/other"
expect 1 '  snug plan tests/parity/bert' "$work/no_map" --settings 1
for kind in losses fits ladders resumes; do
  expect 1 'exit code: 0, now 2' "$work/no_map" --settings 0 --$kind 1
done
echo "compare_behaviour: the same is the same, and every planted difference is found"
