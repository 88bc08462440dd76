#!/usr/bin/env bash
# Holds the includes of src/ and cli/ to the table in tools/layers.txt; prints every violation and fails if there is one.
#
#   tools/check_layers.sh [ROOT]      ROOT: another tree to check against this repository's table
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-$tools/..}"

find src cli -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | LC_ALL=C sort |
  xargs -r awk -v table="$tools/layers.txt" -f "$tools/check_layers.awk"
