"""Claims jobs, runs a function for each, and settles them."""

import base64
import contextlib
import json
import logging
import os
import signal
import socket
import threading

from ._http import GristmillError

LOG = logging.getLogger("gristmill")


class Snooze(Exception):
    """Run the job again after so many seconds, with no attempt used."""

    def __init__(self, after):
        super().__init__(f"again in {after} s")
        self.after = after


class Retry(Exception):
    """The attempt failed; the next one comes after so many seconds, or by the topic's backoff."""

    def __init__(self, message="", code="retry", after=None):
        super().__init__(message)
        self.code, self.after = code, after


class Reject(Exception):
    """The job can never succeed: it is dead at once."""

    def __init__(self, message="", code="reject"):
        super().__init__(message)
        self.code = code


class Job:
    """A claimed job: `id`, `topic`, `body` (a value if it is JSON, else text or bytes), `key`, `metadata`, `attempt`, `attempts_max`,
    `previous` (in which way the last attempt failed, such as `timeout`), `traceparent`, and `cancelled`: there is no point in going on."""

    def __init__(self, claim):
        spec = claim["job"]["spec"]
        self.id, self.topic, self.key, self._body = spec["id"], spec["topic"], spec["key"], spec["body"]
        self.metadata = dict(spec["metadata"])
        self.attempt, self.attempts_max = claim["attempt"], claim["attempts_max"]
        self.previous, self.traceparent = claim["previous"], claim["traceparent"]
        self.lease, self.cancelled = claim["lease"], False

    @property
    def body(self):
        return decoded(self._body)


def settlement(job, function):
    """Runs the function, and says how the attempt ended."""
    try:
        value = function(job)
        return {"ack": {} if value is None else {"result": encoded(value)}}
    except Snooze as it:
        return {"snooze_ms": round(it.after * 1000)}
    except Exception as it:
        error = {"error": {"code": it.code if isinstance(it, (Retry, Reject)) else type(it).__name__, "message": str(it)}}
        if isinstance(it, Retry) and it.after is not None:
            error["after_ms"] = round(it.after * 1000)
        return {"bury": error} if isinstance(it, Reject) else {"release": {}} if job.cancelled else {"retry": error}


class Worker:
    """One call of `work`."""

    def __init__(self, http, tenant, topic, function, lease, name, stopped):
        self.http, self.tenant, self.function, self.stopped = http, tenant, function, stopped
        self.claims, self.lease_ms = f"{tenant}/topics/{topic}/claim", round(lease * 1000)
        self.asked = {"lease_ms": self.lease_ms, "wait_ms": 30_000, "worker": name or f"python-{os.getpid()}"}
        self.jobs, self.claiming, self.ended, self.failure = set(), {}, threading.Event(), None

    def run(self, concurrency, stop):
        threads = [threading.Thread(target=self.loop, args=[stop], daemon=True) for _ in range(concurrency)]
        is_main = threading.current_thread() is threading.main_thread()
        old = is_main and signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stop).start())
        try:
            for thread in [threading.Thread(target=self.beat, daemon=True), *threads]:
                thread.start()
            [thread.join() for thread in threads]
        finally:  # also of a KeyboardInterrupt
            stop()
            [thread.join() for thread in threads]
            self.ended.set()
            if is_main:
                signal.signal(signal.SIGTERM, old)
        if self.failure:
            raise self.failure

    def loop(self, stop):
        while not self.stopped.is_set():
            try:
                claimed, _ = self.http.call("POST", self.claims, self.asked, tries=1, opened=self.opened)
            except GristmillError as error:
                if not (error.is_temporary or error.status >= 500):
                    self.failure = error
                    stop()
                elif not self.stopped.wait(max(1, error.retry_after)):
                    LOG.warning("no claim: %s", error)
                continue
            for claim in claimed["claims"]:
                self.do(Job(claim))

    def do(self, job):
        self.jobs.add(job)
        end = {"release": {}} if self.stopped.is_set() else settlement(job, self.function)
        self.jobs.discard(job)
        try:
            self.settle(job, end)
        except GristmillError as error:  # such as a result that is too large
            end = {"retry": {"error": {"code": error.code, "message": error.detail}}}
            with contextlib.suppress(GristmillError):
                LOG.warning("job %s is not settled: %s", job.id, error)
                self.settle(job, end)

    def settle(self, job, end):
        self.http.call("POST", f"{self.tenant}/leases/settle", {"settlements": [{"lease": job.lease, **end}]})

    def beat(self):
        """Extends the leases of the jobs that run."""
        while not self.ended.wait(self.lease_ms / 3000):
            jobs = list(self.jobs)
            if jobs:
                asked = {"leases": [job.lease for job in jobs], "lease_ms": self.lease_ms}
                with contextlib.suppress(GristmillError):
                    answer, _ = self.http.call("POST", f"{self.tenant}/leases/extend", asked, tries=1)
                    for job, word in zip(jobs, answer["extended"]):
                        job.cancelled = word != "extended"

    def opened(self, connection):
        self.claiming[threading.get_ident()] = connection
        if self.stopped.is_set():
            raise OSError("stopped")

    def interrupt(self):
        """Breaks the connections of claims that wait: the server takes back what it was about to give."""
        for connection in list(self.claiming.values()):
            with contextlib.suppress(OSError):
                connection.sock and connection.sock.shutdown(socket.SHUT_RDWR)


def decoded(payload):
    """The value of a payload: of JSON what it says, else its text or bytes."""
    if payload is None:
        return None
    if "base64" in payload:
        return base64.b64decode(payload["base64"])
    is_json = (payload.get("content_type") or "").startswith("application/json")
    return json.loads(payload["text"]) if is_json else payload["text"]


def encoded(value):
    """A payload of bytes, or of a value as JSON."""
    if isinstance(value, (bytes, bytearray)):
        return {"base64": base64.b64encode(value).decode(), "content_type": "application/octet-stream"}
    return {"text": json.dumps(value), "content_type": "application/json"}
