#!/usr/bin/env bash
# The clang-tidy check can fail: a fault that was committed is found in a source, and in a header through a source that
# did not change; code without fault passes.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(mktemp -d)
trap 'rm -r "$repository"' EXIT
cd "$repository"

commit() { git add -A && git -c user.name=test -c user.email=test@localhost commit -q --allow-empty -m "$1"; }

# expect pass|fail WHAT
expect() {
  local got=pass
  JOBS=1 "$tools/check_tidy.sh" build 30 >output 2>&1 || got=fail
  if [[ $got != "$1" ]]; then echo "expected to $1: $2" && cat output && exit 1; fi
}

git init -q -b main
cp "$tools/../.clang-tidy" .
printf 'build\noutput\n' >.gitignore
mkdir -p src build
echo '#include "thing.h"' | tee src/one.cpp >src/two.cpp
echo 'inline bool is_null(const int* p) { return p == nullptr; }' >src/thing.h
for source in one two; do
  echo "{\"directory\": \"$PWD\", \"command\": \"g++ -I$PWD/src -c src/$source.cpp\","
  echo " \"file\": \"$PWD/src/$source.cpp\"}"
done | sed '1s/^/[/; 2s/$/,/; $s/$/]/' >build/compile_commands.json
commit "no fault"
expect pass "code without fault"

echo 'typedef int Planted;' >>src/two.cpp
commit "a fault in a source"
expect fail "a fault in a committed source"

for i in {1..5}; do echo "int number_$i();"; done >>src/one.cpp
commit "more lines in one.cpp"
MAX_SOURCES=1 expect pass "a source with fewer changed lines than the one there is time for"
MAX_SOURCES=2 expect fail "a source with fewer changed lines, in time for both"

git checkout -q HEAD~2 -- . && commit "no fault again"
for i in {1..40}; do commit "$i"; done
expect pass "nothing changed lately"

echo 'typedef int Planted;' >>src/thing.h
commit "a fault in a header"
expect fail "a fault in a committed header"

git revert -n HEAD && commit "no fault again"
mkdir src/moved && git mv src/two.cpp src/moved/two.cpp
sed -i "s|src/two|src/moved/two|g" build/compile_commands.json
sed -i '1i // A.' src/moved/two.cpp
commit "a file is moved and commented"
JOBS=1 "$tools/check_tidy.sh" build 1 >output
grep -q 'no source changed' output || { echo "expected: a moved file is not looked at again" && cat output && exit 1; }
