#!/usr/bin/env bash
# Download the reports of a run into a folder, and find the pull requests that it was of.
#
# Reads REPOSITORY, RUN_ID, EVENT, HEAD_SHA, HEAD_OWNER, HEAD_BRANCH. Writes `found` and `pull_requests` to
# GITHUB_OUTPUT. A pull request whose head has moved on is none of them: a newer run speaks for it.
set -euo pipefail

folder=$1
most_bytes=$((512 * 1024 * 1024))
most_reports=20

pull_requests=
if [ "$EVENT" = pull_request ]; then
  pull_requests=$(
    gh api --method GET "repos/$REPOSITORY/pulls" -f state=all -f "head=$HEAD_OWNER:$HEAD_BRANCH" -f per_page=100 |
      jq -r --arg sha "$HEAD_SHA" '.[] | select(.head.sha == $sha) | .number' | tr '\n' ' '
  )
  if [ -z "$pull_requests" ]; then
    echo "::notice title=fairgate::No pull request has this commit as its head any more; nothing is told."
    echo "found=false" >> "$GITHUB_OUTPUT"
    exit 0
  fi
fi

mkdir -p "$folder"
listed=$(
  gh api --paginate "repos/$REPOSITORY/actions/runs/$RUN_ID/artifacts?per_page=100" |
    jq -rs --argjson most "$most_reports" '
      [.[].artifacts[] | select((.expired | not) and (.name | startswith("fairness-report")))][:$most][]
      | "\(.id | tonumber) \(.size_in_bytes | tonumber)"'
)
found=false
while read -r id bytes; do
  [ -n "$id" ] || continue
  if [ "$bytes" -gt "$most_bytes" ]; then
    echo "::warning title=fairgate::Artifact $id has $bytes bytes, which no report has; it is not read."
    continue
  fi
  gh api "repos/$REPOSITORY/actions/artifacts/$id/zip" > "$folder/$id.zip"
  found=true
done <<< "$listed"

[ "$found" = true ] || echo "::notice title=fairgate::The run kept no report; its log says why."
{
  echo "found=$found"
  echo "pull_requests=$pull_requests"
} >> "$GITHUB_OUTPUT"
