"""What the tests of all languages ask for, by the body: a batch of jobs, a request over HTTP, the state of a key and bad ends.

`urllib http://…` and the like send with an ordinary library; `recall http://…` asks all that a recording answers.
"""

import smtplib
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from datetime import datetime, timedelta, timezone
from http.client import HTTPConnection, HTTPSConnection
from typing import Optional

import requests

from gristmill_guest import Job, Reject, Retry, checkpoint, config, enqueue, handler, http, is_cancelled, log, now, progress, state

HEADERS = {"X-Kept": "1"}


@handler
def handle(job: Job) -> Optional[str]:
    body = job.text()
    if body in ("fan", "gather", "wrong", "bad", "good"):
        return link(job, body)
    if body == "sockets":
        return "\n".join(without_sockets())
    if body.startswith("recall "):
        return recall(job, body.removeprefix("recall "))
    if " " in body:
        method, _, url = body.partition(" ")
        return request(method, url) if method.isupper() else by_library(method, url)
    return count(job, body)


def link(job: Job, body: str) -> Optional[str]:
    if body == "fan":
        batch = enqueue(job.topic, "gather", after_jobs=[job.id], after_failed="run", open=True)
        bad = enqueue(job.topic, "bad", batch=batch)
        enqueue(job.topic, "good", after_jobs=[bad], batch=batch)
        return batch
    if body == "gather":
        return job.meta("predecessors")
    if body == "wrong":
        return enqueue(job.topic, batch="no id!")
    raise Reject("bad", "as requested")


def request(method: str, url: str) -> str:
    """Sends the request that the body names, such as `GET http://…`; the result is what came back."""
    more = {}
    if method == "POST":
        more = {"headers": [("x-kept", "1"), ("x-kept", "2")], "body": b"hello", "timeout": timedelta(seconds=20)}
    if method == "SLOW":
        method, more = "GET", {"timeout": timedelta(milliseconds=50)}
    answer = http.send(method, url, redirects=1, **more)
    return f"{answer.status} {answer.header('X-A') or ''} {answer.text()}"


def by_library(library: str, url: str) -> str:
    if library == "urllib":
        with urllib.request.urlopen(urllib.request.Request(url, b"hello", HEADERS), timeout=20) as answer:
            return f"{answer.status} {answer.headers.get('x-a', '')} {answer.read().decode()}"
    if library == "client":
        parts = urllib.parse.urlsplit(url)
        connection = {"http": HTTPConnection, "https": HTTPSConnection}[parts.scheme](parts.netloc, timeout=20)
        connection.request("POST", parts.path, iter([b"hel", b"lo"]), HEADERS, encode_chunked=True)
        answer = connection.getresponse()
        return f"{answer.status} {answer.headers.get('x-a', '')} {answer.read().decode()}"
    with requests.Session() as session:
        answer = session.post(url, "hello", headers=HEADERS, timeout=20)
        return f"{answer.status_code} {answer.headers.get('x-a', '')} {answer.text}"


def recall(job: Job, url: str) -> str:
    """Fails with what it was answered, and logs the rest."""
    began, seen = time.time_ns(), state.json(0)
    state.set_json(seen + 1)
    log.info("asking", flour=config.get("flour"), key=len(config.secret("key")), at=str(datetime.now(timezone.utc)), now=now())
    book = http.send("GET", url, headers={"X-Seen": str(seen)}).text()
    with urllib.request.urlopen(url, timeout=20) as answer:
        print(answer.status, answer.read().decode())
    checkpoint(b"asked")
    follow_up = enqueue(job.topic, "later", after=timedelta(minutes=1), unique="ann")
    log.info("asked", follow_up=follow_up, is_cancelled=is_cancelled(), second=time.strftime("%S"))
    raise LookupError(f"{began}: {book}")


def without_sockets():
    """Whatever is no request over HTTP is an ordinary error."""
    tries = {
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "name": lambda: socket.gethostbyname("example.org"),
        "server": lambda: socket.create_server(("127.0.0.1", 8080)),
        "mail": lambda: smtplib.SMTP("127.0.0.1", 25),
    }
    for name, work in tries.items():
        try:
            yield f"{name}: {work()}"
        except OSError as error:
            yield f"{name}: {error}"


def deep(calls: int) -> int:
    return deep(calls + 1) + 1


def count(job: Job, body: str) -> str:
    """Counts the jobs of a key in its state."""
    if body == "progress":
        progress(0.5, "half")
        return ""
    if body == "crash":
        raise RuntimeError("on purpose")
    if body == "deep":
        return str(deep(0))
    everything: list[bytes] = []
    while body == "hoard":
        everything.append(bytes(1 << 20))
    if body == "large":
        checkpoint(b"x" * 2000)
    seen = state.json(0) + 1
    state.set_json(seen)
    if body == "fail" and job.attempt == 1:
        raise Retry("later", "after the state was set")
    return str(seen)
