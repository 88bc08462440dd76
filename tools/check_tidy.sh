#!/usr/bin/env bash
# Runs clang-tidy and fails if it has a word to say.
#
#   tools/check_tidy.sh DATABASE [COMMITS]      DATABASE: a folder with compile_commands.json. With COMMITS only on the
#                                               sources of the last COMMITS commits, of commits that main has not, and
#                                               of the working tree; and on sources that include their headers. A file
#                                               that was moved, or whose comments, layout or includes alone changed, is
#                                               not among them.
# JOBS=N processes at once; MAX_SOURCES=N bounds the changed sources, of which those with the most changed lines are
# taken; MAX_INCLUDERS=N the files that are there only for a header they include; CXX is the compiler of the database.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

readonly database=$1 commits=${2:-} folders=(src cli tests bench)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The sources that the database knows: those of a backend that is not built are not among them.
known() { sed -nE "s|^ *\"file\": \"$PWD/([^\"]*\.cpp)\".*|\1|p" "$database/compile_commands.json" | grep -v '^build' | LC_ALL=C sort -u; }

# Fewer commits than that: everything.
since() {
  git merge-base "HEAD~$commits" main 2>/dev/null || git rev-parse -q --verify "HEAD~$commits" ||
    git hash-object -t tree /dev/null
}

# code: of a source on stdin, what clang-tidy may have a word on.
code() { "${CXX:-g++}" -w -fpreprocessed -dD -E -P -x c++ - | { grep -v '^#include' || true; } | tr -d '[:space:]'; }

changed() {
  local base old new now
  base=$(since)
  git diff --name-status --diff-filter=d --no-renames "$base" -- "${folders[@]}" | cut -f 2- |
    { grep -E '\.(h|cpp)$' || true; } | LC_ALL=C sort >"$work/differ"
  # A file that was moved is compared with what it was.
  git diff --name-status --diff-filter=R -M60 "$base" -- "${folders[@]}" | cut -f 2,3 >"$work/moved"
  while read -r new; do
    old=$(awk -F '\t' -v new="$new" '$2 == new { print $1 }' "$work/moved")
    now=$(code <"$new")
    if ! git cat-file -e "$base:${old:=$new}" 2>/dev/null ||
      [[ $(git show "$base:$old" | code) != "$now" ]]; then echo "$new"; fi
  done <"$work/differ"
  git ls-files --others --exclude-standard -- "${folders[@]}"
}

# includers HEADER: the known sources that include it, by its path below an include folder.
includers() {
  { git grep --untracked -lF "#include \"${1#*/}\"" -- '*.cpp' || true; } | LC_ALL=C sort | comm -12 - "$work/known"
}

# most_changed N: of the chosen sources those with the most changed lines, N at most.
most_changed() {
  local left_out=$(($(wc -l <"$work/chosen") - $1))
  ((left_out > 0)) || return 0
  echo "   $left_out more were changed and are left out: check_tidy.sh $database looks at all" >&2
  git diff --numstat --no-renames "$(since)" -- "${folders[@]}" | awk '{ print $1 + $2, $3 }' | sort -rn | cut -d ' ' -f 2 |
    { grep -xFf "$work/chosen" || true; } | head -n "$1" >"$work/most"
  mv "$work/most" "$work/chosen"
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
  most_changed "${MAX_SOURCES:=48}"
  left_out=$(($(wc -l <"$work/includers") - ${MAX_INCLUDERS:=12}))
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
xargs -P "${JOBS:-2}" -n 1 clang-tidy --quiet -p "$database" --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-unused-command-line-argument \
  "--extra-arg=-isystem$work" <"$work/files" 2> >(grep -vE '^[0-9]+ warnings? ' >&2)
