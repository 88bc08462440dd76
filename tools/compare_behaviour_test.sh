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
expect 0 'the same' "$tools/compare_behaviour_map.txt" --settings 3 --losses 2
as_if 's/("max_live_bytes": *)1/\12/'
expect 1 'max_live_bytes: 1' "$work/no_map" --settings 3
as_if 's/("loss": *[0-9.]+)([0-8])([,}])/\19\3/'
expect 1 'steps[0].loss:' "$work/no_map" --settings 0 --losses 2
as_if 's/\bembedding\(/lookup(/'
expect 1 'program line' "$work/no_map" --settings 1
sed '/^\[program\]/a \\\\bembedding\\( => lookup(' "$work/no_map" > "$work/map"
expect 0 'the same' "$work/map" --settings 1
sed '/^\[intended\]/a plan => a test' "$work/no_map" > "$work/map"
expect 0 'intended: a test (1)' "$work/map" --settings 1
printf '#!/usr/bin/env bash\nexit 2\n' > "$work/other"
expect 1 'exit code: 0, now 2' "$work/no_map" --settings 1
echo "compare_behaviour: the same is the same, and every planted difference is found"
