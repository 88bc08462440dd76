#!/usr/bin/env bash
# Compiles every CUDA kernel for the GPUs that the normal build (for 9.0) leaves out, and keeps nothing. Fails where the
# compiler or the assembler refuses or warns.
#
#   tools/check_gpus.sh [FILE...]     all .cu files of src/ unless given; JOBS=N at a time
#
# What an #if sees is the virtual architecture, so each of them is compiled once, to PTX: 8.0 for all of Ampere and Ada.
# What a chip holds (threads, registers, shared memory) the assembler checks, so each chip is assembled from that PTX.
# Both optimise little: they refuse the same things, in half the time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly FAMILIES=("80:80,86,87,89,90,100,120" "100:100" "120:120") # virtual architecture:chips
JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# check FAMILY FILE: with the flags of cmake/SnugCuda.cmake. What is refused is in $work/*.refused.
check() {
  local virtual=${1%:*} chip name=$work/${1%:*}.${2//\//_}
  nvcc -std=c++20 -O3 -Xcicc -O1 "-arch=compute_$virtual" -ptx --expt-relaxed-constexpr -Werror=all-warnings \
    -DFMT_CONSTEVAL= -DFMT_USE_CONSTEXPR=1 -Isrc -Iinclude -o "$name.ptx" "$2" >"$name.log" 2>&1 ||
    { (echo "$2, compute_$virtual:" && cat "$name.log") >"$name.refused" && return; }
  for chip in ${1#*:}; do
    ptxas "-arch=sm_$chip" -O0 -Werror -o /dev/null "$name.ptx" >"$name.log" 2>&1 ||
      (echo "$2, sm_$chip:" && cat "$name.log") >"$name.$chip.refused"
  done
  rm "$name.ptx"
}
export -f check
export work

if (($# > 0)); then files=("$@"); else mapfile -t files < <(find src -name '*.cu' | LC_ALL=C sort); fi
for family in "${FAMILIES[@]}"; do
  printf "$family %s\n" "${files[@]}"
done | xargs -P "$JOBS" -L 1 bash -c 'IFS=, && check "$@"' check

if compgen -G "$work/*.refused" >/dev/null; then
  cat "$work"/*.refused | c++filt
  exit 1
fi
echo "${#files[@]} files compile for ${FAMILIES[*]#*:}"
