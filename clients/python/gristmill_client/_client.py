"""The five verbs: push, wait, events, work, cancel."""

import base64
import contextlib
import datetime
import json
import os
import threading
import time
import urllib.parse
import uuid
from collections import namedtuple

from ._http import BROKEN, GristmillError, Http
from ._worker import LOG, Worker, decoded

BATCH = 1000  # jobs in a request
QUIET = 45  # seconds: the server sends a comment every 15, so a stream that is silent for longer is dead
# What became of a push: `status` is `stored`, `exists`, `duplicate` (`id` is the other job's) or, of many, `refused`.
Pushed = namedtuple("Pushed", "id status problem", defaults=[None])
# How a job ended: `outcome` is `complete`, `dead`, `expired`, `cancelled` or `deleted`; `failure` has `reason`, `code` and `message`.
End = namedtuple("End", "outcome result failure")
# A job of a `push_many` that has options of its own.
NewJob = namedtuple("NewJob", "body options")


class Client:
    """A client of one tenant. Threads may share it.

    `server` is `$GRISTMILL_SERVER` or http://127.0.0.1:7331, and `token` `$GRISTMILL_TOKEN`, unless they are given.
    """

    def __init__(self, server=None, token=None, tenant="default", tries=5):
        server = server or os.environ.get("GRISTMILL_SERVER") or "http://127.0.0.1:7331"
        self._http = Http(server, token or os.environ.get("GRISTMILL_TOKEN"), tries)
        self._tenant = f"/v1/tenants/{quoted(tenant)}"
        self._stopped, self._workers = threading.Event(), []

    def push(self, topic, body, **options):
        """Pushes a job whose body is `body` as JSON, or these bytes.

        Options: `delay`, `ttl`, `keep_result` (seconds, or a timedelta), `at` (datetime, or seconds since 1970), `key`, `unique` (a text, or
        {"value", "window_ms"}), `priority`, `after` (ids, or what `push` returned), `after_failed`, `attempts`, `id`, `metadata`,
        `traceparent`, `batch`, `open`, `content_type`.
        """
        return self._push(topic, [fields(body, options)], False)[0]

    def push_many(self, topic, bodies, **options):
        """Pushes a job for each body, or `NewJob`. Each request of up to 1000 jobs is stored as a whole."""
        jobs = [body if isinstance(body, NewJob) else NewJob(body, {}) for body in bodies]
        jobs = [fields(job.body, options | job.options) for job in jobs]
        return [it for at in range(0, len(jobs), BATCH) for it in self._push(topic, jobs[at : at + BATCH], True)]

    def _push(self, topic, jobs, is_list):
        headers, made = {"Idempotency-Key": str(uuid.uuid4())}, []
        if self._http.repeats and any("id" in job or "unique" in job for job in jobs):
            headers = {}  # that key and these exclude each other: ids tell a repeated push from another one's
            made = [job.setdefault("id", str(uuid.uuid4())) for job in jobs if "id" not in job]
        document = {"jobs": jobs} if is_list else jobs[0]
        answer, tried = self._http.call("POST", f"{self._tenant}/topics/{quoted(topic)}/jobs", document, headers)
        for warning in answer.get("warnings", []):
            LOG.warning(warning)
        stored = made if tried > 1 else []  # by an earlier try
        answers = answer["jobs"] if is_list else [answer]
        return [Pushed(it["id"], "stored" if it["id"] in stored else it["status"], it.get("problem")) for it in answers]

    def wait(self, job, timeout=60):
        """The `End` of a job, by its id or what `push` returned. It has the result if `keep_result` or the topic keeps it."""
        until = time.monotonic() + timeout
        while True:
            left = max(0, until - time.monotonic())
            path = f"{self._tenant}/jobs/{quoted(id_of(job))}?wait_ms={min(ms(left), 30_000)}"
            view, _ = self._http.call("GET", path)
            if view["state"] in ("finished", "dead"):
                result, ended = view.get("result") or {}, view.get("ended") or {}
                outcome = result.get("outcome") or ended.get("outcome") or view["state"]
                return End(outcome, decoded(result.get("output")), result.get("failure") or view.get("last_failure"))
            if left == 0:
                raise GristmillError("wait-timeout", "Not over", f"job {view['id']} is {view['state']} after {timeout} s")

    def cancel(self, job):
        """`gone` if the job waited, `stopping` if it runs."""
        return self._http.call("DELETE", f"{self._tenant}/jobs/{quoted(id_of(job))}")[0]["status"]

    def events(self, topic=None, job=None, kinds=None):
        """What happens from now on, as dictionaries with `kind`. After a broken connection goes on with `{"kind": "reconnected"}`: events
        between may be missing."""
        asked = {"topic": topic, "job": job and id_of(job), "kind": kinds and ",".join(kinds)}
        query = urllib.parse.urlencode({name: value for name, value in asked.items() if value})
        path = f"{self._tenant}/events?{query}"
        return self._events(path, self._http.send("GET", path, None, None, QUIET, is_stream=True))

    def _events(self, path, stream):
        while True:
            with contextlib.suppress(*BROKEN), stream:
                yield from parsed(stream)
            time.sleep(1)
            try:
                stream = self._http.send("GET", path, None, None, QUIET, is_stream=True)
                yield {"kind": "reconnected"}
            except GristmillError as error:
                if not error.is_temporary:
                    raise

    def work(self, topic, function, concurrency=1, lease=60, name=None):
        """Works the jobs of a topic with `handler = "external"` until `stop()` or SIGTERM; then what runs is ended and settled.

        `function` gets a `Job`, on a thread; what it returns is the result. It raises `Snooze`, `Retry` or `Reject`; any other
        exception is a retry.
        """
        worker = Worker(self._http, self._tenant, quoted(topic), function, lease, name, self._stopped)
        self._workers.append(worker)
        worker.run(concurrency, self.stop)

    def stop(self):
        """Ends `work`, now or as soon as it is called: no job is claimed any more."""
        self._stopped.set()
        for worker in self._workers:
            worker.interrupt()


def fields(body, options):
    """A job as the API takes it."""
    job = {"body_base64": base64.b64encode(body).decode()} if isinstance(body, (bytes, bytearray)) else {"body": body}
    options = {name: value for name, value in options.items() if value is not None}
    if trace := options.pop("traceparent", None):
        options["metadata"] = options.get("metadata", {}) | {"traceparent": trace}
    for name, value in options.items():
        if name in ("delay", "ttl", "keep_result"):
            job[f"{name}_ms"] = ms(value)
        elif name == "at":
            job["at_ms"] = ms(value.timestamp() if isinstance(value, datetime.datetime) else value)
        elif name == "after":
            job["after"] = [id_of(it) for it in value]
        else:
            job["attempts_max" if name == "attempts" else name] = value
    return job


def parsed(stream):
    """Server-sent events, as far as the server uses them."""
    kind = None
    for line in stream:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield {"kind": kind, **json.loads(value)}


def id_of(job):
    return getattr(job, "id", job)


def ms(seconds):
    try:
        return round((seconds.total_seconds() if isinstance(seconds, datetime.timedelta) else seconds) * 1000)
    except TypeError:
        raise TypeError(f"{seconds!r} is no time: write a number of seconds, such as 0.5, or a timedelta") from None


def quoted(text):
    return urllib.parse.quote(text, safe="")
