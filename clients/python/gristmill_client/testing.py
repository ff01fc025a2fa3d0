"""A client without a server, for tests: `Fake().pushed()` lists what was pushed, `inline` has a function do it at once."""

import json
from urllib.parse import unquote

from ._client import Client, id_of
from ._http import GristmillError
from ._worker import Job, encoded, settlement


class Fake(Client):
    """A `Client` that keeps jobs in memory. Time stands still: jobs wait until `work`, whatever their delays."""

    def __init__(self):
        super().__init__("http://fake.invalid")
        self._http = _Server()

    def pushed(self, topic=None):
        """What was pushed, as the documents of the API, each with its `topic`."""
        return [job for job in self._http.pushed if topic in (None, job["topic"])]

    def inline(self, topic, function):
        """From now on the function does each job of the topic when it is pushed."""
        self._http.inline[topic] = function

    def work(self, topic, function, **_):
        """Does what waits in the topic, and returns."""
        for view in self._http.waiting(topic):
            self._http.run(view, function)

    def events(self, topic=None, job=None, kinds=None):
        """What has happened so far."""
        wanted = {"topic": topic and [topic], "job": job and [id_of(job)], "kind": kinds}
        return iter([it for it in self._http.events if all(it[name] in some for name, some in wanted.items() if some)])


class _Server:
    """In place of `Http`."""

    repeats = False

    def __init__(self):
        self.pushed, self.views, self.inline, self.events = [], {}, {}, []

    def call(self, method, path, document=None, *_):
        name = unquote(path.split("?")[0].split("/")[5])
        if method == "POST":
            many = [self.push(name, job) for job in document.get("jobs", [document])]
            return ({"jobs": many} if "jobs" in document else many[0]), 1
        view = self.views.get(name)
        if not view:
            raise GristmillError("job-unknown", "Not Found", f"job {name} was not pushed", 404)
        if method == "GET":
            return view, 1
        if view["state"] != "ready":
            raise GristmillError("too-late", "Conflict", f"job {name} is over", 409)
        self.say(view, "job-cancelled", state="finished", result={"outcome": "cancelled"})
        return {"status": "gone"}, 1

    def waiting(self, topic):
        return [view for view in self.views.values() if view["topic"] == topic and view["state"] == "ready"]

    def push(self, topic, job):
        job = {"topic": topic} | json.loads(json.dumps(job))
        id = job.get("id") or f"fake-{len(self.views) + 1}"
        for view in self.waiting(topic):
            if job.get("unique") and view["job"].get("unique") == job["unique"]:
                return {"id": view["id"], "status": "duplicate"}
        self.pushed.append(job)
        self.views[id] = {"id": id, "topic": topic, "job": job, "attempts": 0}
        self.say(self.views[id], "job-pushed", state="ready")
        if topic in self.inline:
            self.run(self.views[id], self.inline[topic])
        return {"id": id, "status": "stored"}

    def run(self, view, function):
        """One attempt, and further ones at once as long as the option `attempts` allows them."""
        most = view["job"].get("attempts_max", 1)
        for attempt in range(1, most + 1):
            end = settlement(Job(claim(view, attempt, most)), function)
            if "ack" in end:
                result = {"outcome": "complete", "output": end["ack"].get("result")}
                return self.say(view, "job-completed", state="finished", result=result)
            if "snooze_ms" in end:
                return self.say(view, "job-snoozed")
            if "bury" in end or attempt == most:
                reason, failure = ("rejected", end["bury"]) if "bury" in end else ("failed", end["retry"])
                return self.say(view, "job-dead", state="dead", last_failure={"reason": reason, **failure["error"]})

    def say(self, view, kind, **changed):
        view.update(changed)
        self.events.append({"kind": kind, "topic": view["topic"], "job": view["id"]})


def claim(view, attempt, most):
    """What a worker would get for the job."""
    job, metadata = view["job"], view["job"].get("metadata", {})
    body = {"base64": job["body_base64"]} if "body_base64" in job else encoded(job["body"])
    spec = {"id": view["id"], "topic": view["topic"], "key": job.get("key"), "body": body, "metadata": metadata.items()}
    trace = metadata.get("traceparent")
    return {"lease": "", "attempt": attempt, "attempts_max": most, "previous": None, "traceparent": trace, "job": {"spec": spec}}
