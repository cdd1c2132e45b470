#!/usr/bin/env bash
# Write one comment per suite on a pull request, and the next time replace it.
#
# The comment is found by the marker in its first line, and by its author: anybody can write a marker. Reads REPOSITORY
# and BOT (the author; default github-actions[bot]). The folder holds rendered reports, one in a folder each.
set -euo pipefail

folder=$1
bot=${BOT:-github-actions[bot]}

for report in "$folder"/*/; do
  body="${report}comment.md"
  marker=$(head -n 1 "$body")
  number=$(jq -er '.environment.pull_request | numbers' "${report}results.json")
  own=$(
    gh api --paginate "repos/$REPOSITORY/issues/$number/comments?per_page=100" |
      jq -rs --arg bot "$bot" --arg marker "$marker" '
        [.[][] | select(.user.login == $bot and (.body | split("\n")[0] | rtrimstr("\r")) == $marker)][0].id // empty'
  )
  if [ -n "$own" ]; then
    gh api --silent --method PATCH "repos/$REPOSITORY/issues/comments/$own" -F "body=@$body"
    echo "updated comment $own on pull request $number"
  else
    gh api --silent --method POST "repos/$REPOSITORY/issues/$number/comments" -F "body=@$body"
    echo "commented on pull request $number"
  fi
done
