#!/bin/sh
# Pushes jobs with redis-cli, straight into the store. The topic needs `raw-producers = true` in the manifest.
#
#   sh push-redis.sh echo     # one job now, one in a minute, 1,000 at once; the store is at $REDIS_URL
set -eu
topic=$1
url=${REDIS_URL:-redis://127.0.0.1:6379/0}
store='gm:{default/0}'    # the manifest's prefix, and the tenant
redis() { redis-cli -e -u "$url" "$@"; }    # -e: an error of the server is an exit code, too

# Now. The body is what is pushed; the runner gives it an id. The last two lines start it at once; without them the topic is
# looked at now and then.
redis LPUSH "$store:ready:$topic" '{"hello": "now"}'
redis SADD "$store:active" "$topic" > /dev/null
redis PUBLISH gm:wake "ready default $topic" > /dev/null

# In a minute. Equal members of a sorted set are one: an `id` in the body makes each its own.
due=$(( $(date +%s) * 1000 + 60000 ))
redis ZADD "$store:delayed:$topic" "$due" "{\"hello\": \"later\", \"id\": \"$(date +%s)-$$\"}"
redis ZADD "$store:due" LT "$due" "$topic" > /dev/null
redis PUBLISH gm:wake 'due default 60000' > /dev/null

# Many at once: one command, so all of them or none. An answer is the length of the List; no answer means that nobody knows,
# and that a second try may make jobs twice. Where that matters, push over HTTP with ids of your own.
number=1
while [ "$number" -le 1000 ]; do
  echo "{\"number\": $number}"
  number=$((number + 1))
done | tr '\n' '\0' | xargs -0 redis-cli -e -u "$url" LPUSH "$store:ready:$topic"
redis SADD "$store:active" "$topic" > /dev/null
redis PUBLISH gm:wake "ready default $topic" > /dev/null
