#!/usr/bin/env bash
# The check of commit subjects can fail: it finds one that is too long, counts characters, and leaves old commits alone.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset "${!GIT_@}" # of a hook that runs this

commit() { git -C "$work" -c user.name=test -c user.email=test@example.org commit -q --allow-empty -m "$1"; }

# expect pass|fail WORDS SINCE: WORDS are in what the check says.
expect() {
  local said got=pass
  said=$("$tools/check_subjects.sh" "$work" "$3" 2>&1) || got=fail
  [[ $got == "$1" && $said == *"$2"* ]] || { echo "FAILED: expected to $1 with '$2', but: $got: $said" && exit 1; }
}

printf -v sixty '%60s' ''
sixty=${sixty// /x}
git -C "$work" init -q
commit "$sixty is too long, and as old as can be"
first=$(git -C "$work" rev-parse HEAD)
expect pass 'each of 0' "$first"
commit "${sixty}zwölf Zeichn" # 72 characters, 73 bytes
commit "A body may be longer

$sixty $sixty"
expect pass 'each of 2' "$first"
commit "${sixty}thirteen more"
expect fail 'a subject of 73 characters' "$first"
commit "Short"
expect fail 'a subject of 73 characters' "$first"
expect pass 'each of 1' HEAD~1
expect pass 'not checked' 0123456789abcdef0123456789abcdef01234567
echo "check_subjects: what is too long is found"
