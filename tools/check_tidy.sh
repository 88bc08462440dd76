#!/usr/bin/env bash
# Runs clang-tidy and fails if it has a word to say.
#
#   tools/check_tidy.sh DATABASE [COMMITS]      DATABASE: a folder with compile_commands.json. With COMMITS only on the
#                                               sources of the last COMMITS commits, of commits that main has not, and
#                                               of the working tree; and on sources that include their headers.
# JOBS=N processes at once; MAX_INCLUDERS=N bounds the files that are there only for a header they include; CXX is the
# compiler of the database.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

readonly database=$1 commits=${2:-} folders=(src cli tests bench)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The sources that the database knows: those of a backend that is not built are not among them.
known() { sed -nE "s|^ *\"file\": \"$PWD/([^\"]*\.cpp)\".*|\1|p" "$database/compile_commands.json" | grep -v '^build' | LC_ALL=C sort -u; }

changed() {
  local since
  since=$(git merge-base "HEAD~$commits" main 2>/dev/null || git rev-parse -q --verify "HEAD~$commits" ||
    git hash-object -t tree /dev/null) # fewer commits than that: everything
  git diff --name-only --diff-filter=d "$since" -- "${folders[@]}"
  git ls-files --others --exclude-standard -- "${folders[@]}"
}

# includers HEADER: the known sources that include it, by its path below an include folder.
includers() {
  { git grep --untracked -lF "#include \"${1#*/}\"" -- '*.cpp' || true; } | LC_ALL=C sort | comm -12 - "$work/known"
}

# recent: changed sources; a source for each changed header, though no source of its own changed; then more such.
recent() {
  local header all left_out
  changed | LC_ALL=C sort -u >"$work/changed"
  comm -12 "$work/changed" "$work/known" >"$work/chosen"
  : >"$work/more"
  for header in $(grep '\.h$' "$work/changed"); do
    all=$(includers "$header")
    [[ -n $all ]] || continue
    grep -qxFf "$work/chosen" <<<"$all" || head -n 1 <<<"$all" >>"$work/chosen"
    echo "$all" >>"$work/more"
  done
  { LC_ALL=C sort -u "$work/more" | grep -vxFf "$work/chosen" || true; } >"$work/includers"
  left_out=$(($(wc -l <"$work/includers") - ${MAX_INCLUDERS:=30}))
  ((left_out <= 0)) || echo "   $left_out more include a changed header and are left out" >&2
  cat "$work/chosen" && head -n "$MAX_INCLUDERS" "$work/includers"
}

known >"$work/known"
if [[ -n $commits ]]; then recent >"$work/files"; else cp "$work/known" "$work/files"; fi
if [[ ! -s $work/files ]]; then echo "   no source changed" && exit; fi
echo "   $(wc -l <"$work/files") of $(wc -l <"$work/known") sources"

# The code is compiled by g++: clang needs its OpenMP header, without attributes that it does not know, and to be silent
# about its flags.
perl -0pe 's{__attribute__\s*(\((?:[^()]++|(?1))*\))}{}g' "$("${CXX:-g++}" -print-file-name=include/omp.h)" >"$work/omp.h"
xargs -P "${JOBS:-2}" -n 1 clang-tidy --quiet -p "$database" --extra-arg=-Wno-unknown-warning-option \
  "--extra-arg=-isystem$work" <"$work/files" 2> >(grep -vE '^[0-9]+ warnings? ' >&2)
