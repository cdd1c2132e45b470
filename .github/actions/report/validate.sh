#!/usr/bin/env bash
# Validate the downloaded artifacts, none of which is trusted, and render each again into a folder of its own.
#
# Reads PYTHON, HEAD_SHA, PULL_REQUESTS (numbers, or nothing), RUN_URL. Writes `folder` to GITHUB_OUTPUT where at least
# one is good. Fails where one is not.
set -euo pipefail

artifacts=$1
folder=$2
fairgate() { "$PYTHON" -P -m fairgate.interfaces.cli "$@"; }

origin=(--commit "$HEAD_SHA")
for number in $PULL_REQUESTS; do
  origin+=(--pull-request "$number")
done

# Errors hold words of the artifact. The runner takes none of them for a command until it sees the token.
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "::stop-commands::$token"
good=0
refused=0
for archive in "$artifacts"/*.zip; do
  id=$(basename "$archive" .zip)
  if fairgate report unpack -- "$archive" "$artifacts/$id" &&
    fairgate report check "${origin[@]}" -- "$artifacts/$id" &&
    fairgate report render --out "$folder/$id" --report-url "$RUN_URL#artifacts" -- "$artifacts/$id"; then
    good=$((good + 1))
  else
    refused=$((refused + 1))
  fi
done
printf '\n::%s::\n' "$token"

if [ "$good" -gt 0 ]; then
  echo "folder=$folder" >> "$GITHUB_OUTPUT"
fi
if [ "$refused" -gt 0 ]; then
  echo "::error title=fairgate::$refused report(s) were refused: damaged, forged, or of another run. The log says which."
  exit 1
fi
