#!/usr/bin/env bash
# check_subjects.sh [REPOSITORY [SINCE]]: the subjects of the commits after SINCE have at most 72 characters. Commits
# before it have longer ones. A shallow clone, or one without that commit, passes and says so.
set -euo pipefail

readonly MOST=72
repository=${1:-$(dirname "${BASH_SOURCE[0]}")/..}
since=${2:-594cf14}
export LC_ALL=C.UTF-8 # characters, not bytes

if ! git -C "$repository" merge-base --is-ancestor "$since" HEAD 2>/dev/null; then
  echo "commit subjects: not checked, commit $since is not in the history of this clone"
  exit 0
fi
checked=0 status=0
while read -r commit subject; do
  ((++checked))
  ((${#subject} > MOST)) || continue
  echo "$commit: a subject of ${#subject} characters, and $MOST are the most: $subject"
  status=1
done < <(git -C "$repository" log --no-merges --format='%h %s' "$since..HEAD")
((status != 0)) || echo "commit subjects: each of $checked has at most $MOST characters"
exit $status
