"""Pushes jobs over HTTP with nothing but Python's standard library.

    python3 push.py echo      # one job now, one in a minute, 2,500 at once; the server is at $GRISTMILL_SERVER,
                              # and $GRISTMILL_TOKEN is the token to come in with, if it wants one
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

URL = os.environ.get("GRISTMILL_SERVER", "http://127.0.0.1:7331")
TOKEN = os.environ.get("GRISTMILL_TOKEN")
TRACEPARENT = os.environ.get("TRACEPARENT")
JOBS_PER_REQUEST = 1000
TRIES = 5


class Refused(Exception):
    """The server understood and said no: the same push will be refused again."""


def job(topic, value, *, id=None, after=0, **fields):
    """A job for `topic` whose body is `value` as JSON, due `after` so many seconds.

    The id is made here, before anything is sent: a push whose answer got lost may then be repeated, and is stored once.
    The id alone says so until the job is done; as a unique value with a window it does for as long as anybody retries.
    """
    id = id or str(uuid.uuid4())
    once = {"value": id, "window_ms": 3_600_000}
    return {"topic": topic, "id": id, "body": value, "unique": once, "delay_ms": round(after * 1000), **fields}


def push(jobs):
    """What became of each job: `stored`, `exists` (it was there already) or `duplicate` (another has its unique value).

    Raises `Refused`, or what kept the last try from the server. Then jobs that come before may be stored, so push the
    very same again: those that are there are answered `exists`.
    """
    pushed = []
    for first in range(0, len(jobs), JOBS_PER_REQUEST):
        pushed += send(jobs[first : first + JOBS_PER_REQUEST])
    return [
        "exists" if answer.get("of") == job["id"] else answer["status"] for job, answer in zip(jobs, pushed)
    ]


def send(jobs):
    data = json.dumps({"jobs": jobs}).encode()
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if TOKEN else {})}
    if TRACEPARENT:  # the W3C context that this program runs in; instrumented HTTP clients send it by themselves
        headers["traceparent"] = TRACEPARENT
    request = urllib.request.Request(URL + "/v1/jobs", data, headers)
    for left in reversed(range(TRIES)):
        wait = 0.1 * 2 ** (TRIES - left)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)["pushed"]
        except urllib.error.HTTPError as error:
            problem = json.load(error)  # RFC 9457
            if error.code < 500 and error.code != 429:
                raise Refused(f"{problem['code']}: {problem['detail']}") from None
            failure, wait = error, max(wait, int(error.headers.get("Retry-After", 0)))
        except (OSError, http.client.HTTPException) as error:  # no connection, no answer in time, or half of one
            failure = error
        if left == 0:
            raise failure
        time.sleep(wait)


def main(topic):
    first = job(topic, {"hello": "now"})
    print("now:", push([first]))
    print("the same again:", push([first]))
    print("in a minute:", push([job(topic, {"hello": "later"}, after=60, priority="low")]))
    many = push([job(topic, {"number": number}) for number in range(2500)])
    print("many:", {status: many.count(status) for status in set(many)})


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Refused as refused:
        sys.exit(f"refused: {refused}")
    except (OSError, http.client.HTTPException) as error:
        sys.exit(f"not pushed, {TRIES} tries: {error}")
