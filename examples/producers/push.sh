#!/bin/sh
# Pushes jobs with curl, over HTTP.
#
#   sh push.sh echo           # one job now, one in a minute, 1,000 at once; the server is at $GRISTMILL_SERVER,
#                           # and $GRISTMILL_TOKEN is the token to come in with, if it wants one
set -eu
topic=$1
url=${GRISTMILL_SERVER:-http://127.0.0.1:7331}
prefix=$(date +%s)-$$   # of the ids, which are made before anything is sent: a push may then be repeated

# job ID DELAY BODY: one job, as JSON, due in so many milliseconds. The id alone makes a push repeatable until the job is done; as a unique value with a
# window it does for as long as anybody retries.
job() {
  printf '{"topic": "%s", "id": "%s", "body": %s, "unique": {"value": "%s", "window_ms": 3600000}, "delay_ms": %s}' \
    "$topic" "$1" "$3" "$1" "$2"
}

# push: jobs from standard input. Prints the answer: `stored`; or `exists`, or `duplicate` of its own id, if an earlier try got
# through. --retry repeats what met no server, no answer, a 5xx or a 429 (when its
# Retry-After says); what the server refuses ends with the reason and exit code 22.
push() {
  curl --silent --show-error --fail-with-body --max-time 30 --retry 5 --retry-connrefused \
    --header 'Content-Type: application/json' ${GRISTMILL_TOKEN:+--oauth2-bearer "$GRISTMILL_TOKEN"} --data-binary @- "$url/v1/jobs"
  echo
}

echo "{\"jobs\": [$(job "$prefix-now" 0 '{"hello": "now"}')]}" | push
echo "{\"jobs\": [$(job "$prefix-now" 0 '{"hello": "now"}')]}" | push     # the same again
echo "{\"jobs\": [$(job "$prefix-later" 60000 '{"hello": "later"}')]}" | push
many=$(
  printf '{"jobs": [%s' "$(job "$prefix-many-1" 0 '{"number": 1}')"
  number=2
  while [ "$number" -le 1000 ]; do
    printf ', %s' "$(job "$prefix-many-$number" 0 "{\"number\": $number}")"
    number=$((number + 1))
  done
  echo ']}'
)
answer=$(printf %s "$many" | push)
echo "$answer" | grep --only-matching stored | wc --lines
