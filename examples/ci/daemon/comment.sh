#!/bin/sh
# Writes a file as a comment on a pull request of GitHub or a merge request of GitLab. A comment that an
# earlier job has written is updated. It needs curl and jq.
#
#   comment.sh plan.md
set -eu

marker='<!-- terrapulse: plans of this change -->'
body=$(mktemp)
trap 'rm -f "$body" "$body.list"' EXIT
{ printf '%s\n' "$marker"; cat "$1"; } | jq -Rs '{body: .}' >"$body"

if [ -n "${GITLAB_CI:-}" ]; then
  list="$CI_API_V4_URL/projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes"
  one=$list update=PUT
  auth="PRIVATE-TOKEN: ${COMMENT_TOKEN:?set the variable COMMENT_TOKEN to a project access token with the scope api}"
else
  list="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/${PULL_REQUEST:?set the variable PULL_REQUEST to the number of the pull request}/comments"
  one="$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/comments" update=PATCH
  auth="Authorization: Bearer ${GITHUB_TOKEN:?set the variable GITHUB_TOKEN}"
fi

# The header comes from a pipe, so that other users of the machine do not see the token.
request() {
  printf 'header = "%s"\n' "$auth" | curl --config - --silent --show-error --fail --retry 3 --header 'Content-Type: application/json' "$@"
}

id='' page=1
while [ -z "$id" ]; do
  request "$list?per_page=100&page=$page" >"$body.list"
  id=$(jq -r --arg marker "$marker" 'map(select(.body | startswith($marker))) | first | .id // empty' "$body.list")
  [ "$(jq length "$body.list")" -eq 100 ] || break
  page=$((page + 1))
done

if [ -n "$id" ]; then
  request --request "$update" --data-binary "@$body" "$one/$id" >/dev/null
else
  # Not repeated: an attempt whose answer is lost may have written the comment.
  printf 'header = "%s"\n' "$auth" | curl --config - --silent --show-error --fail --header 'Content-Type: application/json' --data-binary "@$body" "$list" >/dev/null
fi
