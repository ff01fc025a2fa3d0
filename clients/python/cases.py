"""Plays clients/cases.json against the server at $GRISTMILL_SERVER, and prints what came of each step, one a line.

    python3 cases.py ../cases.json TENANT      # $GRISTMILL_FAULTY is a proxy that fails pushes
"""

import base64
import json
import os
import re
import signal
import sys
import time

from gristmill_client import Client, GristmillError, Reject, Retry, Snooze
from gristmill_client.testing import Fake

TENANT = sys.argv[2]
SECONDS = {"delay_ms": "delay", "keep_result_ms": "keep_result"}


def clients():
    yield "faulty", Client(os.environ["GRISTMILL_FAULTY"], tenant=TENANT)
    yield "moved", Client(os.environ["GRISTMILL_FAULTY"] + "/moved", tenant=TENANT)
    yield "stranger", Client(token="gm_wrong", tenant=TENANT)
    yield "nowhere", Client("http://127.0.0.1:1", tenant=TENANT, tries=2)
    yield "fake", Fake()
    yield "", Client(tenant=TENANT)


CLIENTS, JOBS, STREAMS = dict(clients()), {}, {}


def options(step):
    given = {SECONDS.get(name, name): value / 1000 if name in SECONDS else value for name, value in step.get("options", {}).items()}
    if "at_in_ms" in given:
        given["at"] = time.time() + given.pop("at_in_ms") / 1000
    if "after" in given:
        given["after"] = [JOBS[name] for name in given["after"]]
    return given


def payload(name, value):
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else {} if value is None else {name: value}


class Function:
    """What a worker does with a job: `kind` says how it ends. Notes what it was given, and stops the worker after `until` jobs."""

    def __init__(self, kind, until=0, client=None):
        self.kind, self.until, self.client, self.worked = kind, until, client, []

    def __call__(self, job):
        self.worked.append(payload("body", job.body) | {"attempt": job.attempt, "key": job.key, "traceparent": job.traceparent})
        if len(self.worked) == self.until:
            self.client.stop()
        first = len(self.worked) == 1
        if self.kind == "retry" and first:
            raise Retry("once more", after=0)
        if self.kind == "snooze" and first:
            raise Snooze(0.1)
        if self.kind == "reject":
            raise Reject("there is no address", code="no-address")
        if self.kind == "fail":
            raise RuntimeError("broken")
        if self.kind == "cancelled":
            self.client.cancel(job.id)
            until = time.monotonic() + 60
            while not job.cancelled and time.monotonic() < until:
                time.sleep(0.02)
            raise RuntimeError("cancelled" if job.cancelled else "no heartbeat")
        if self.kind == "sigterm":
            os.kill(os.getpid(), signal.SIGTERM)
            until = time.monotonic() + 60
            while not self.client._stopped.is_set() and time.monotonic() < until:
                time.sleep(0.02)
        return "x" * (1 << 20) if self.kind == "large" else job.body


def play(step, client):
    match step["do"]:
        case "push":
            body = base64.b64decode(step["bytes"]) if "bytes" in step else step["body"]
            pushed = client.push(step["topic"], body, **options(step))
            same = next((name for name, job in JOBS.items() if getattr(job, "id", None) == pushed.id), None)
            JOBS[step["as"]] = pushed
            return {"status": pushed.status} | ({"is": same} if same else {})
        case "push_many":
            pushed = client.push_many(step["topic"], step["bodies"], **options(step))
            JOBS.update({f"{step['as']}{index}": job for index, job in enumerate(pushed)})
            return {"statuses": [job.status for job in pushed]}
        case "wait":
            end = client.wait(JOBS.get(step["job"], step["job"]), timeout=step.get("timeout_ms", 60_000) / 1000)
            failure = end.failure and {name: end.failure[name] for name in ("reason", "code", "message")}
            return {"outcome": end.outcome} | payload("result", end.result) | ({"failure": failure} if failure else {})
        case "cancel":
            return {"cancelled": client.cancel(JOBS[step["job"]])}
        case "work":
            client = client if step.get("client") else Client(tenant=TENANT)
            function = Function(step["function"], step.get("until"), client)
            client.work(step["topic"], function, lease=step.get("lease_ms", 60_000) / 1000)
            return {"worked": function.worked}
        case "listen":
            STREAMS[step.get("client", "")] = client.events(topic=step["topic"])
            return {"listening": True}
        case "hear":
            events, kinds = STREAMS[step.get("client", "")], []
            while len(kinds) < step["count"]:
                event = next(events)
                if event.get("job") == JOBS[step["job"]].id:
                    kinds.append(event["kind"])
            return {"kinds": sorted(kinds)}
        case "pushed":
            return {"pushed": CLIENTS["fake"].pushed(step["topic"])}
        case "inline":
            CLIENTS["fake"].inline(step["topic"], Function(step["function"]))
            return {"inline": True}


try:
    CLIENTS["fake"].push("mail", 1, delay="5s")
except TypeError as error:
    assert "number of seconds" in str(error), error
else:
    raise AssertionError("a delay that is no number was pushed")

for case in json.load(open(sys.argv[1], encoding="utf-8"))["cases"]:
    JOBS.clear()
    for step in case["steps"]:
        try:
            line = play(step, CLIENTS[step.get("client", "")])
        except GristmillError as error:
            named = re.search(r"http://[\d.:]*\d", error.detail)
            line = {"error": error.code, "status": error.status} | ({"address": named[0]} if named else {})
        print(json.dumps(line), flush=True)
