"""Write a handler of Gristmill, the job runner, as a Python function: what the contract `wit/job.wit` offers, in Python's own terms.

    from gristmill_guest import Job, handler, log

    @handler
    def greet(job: Job) -> dict:
        log.info("greet", attempt=job.attempt)
        return {"hello": job.json()["name"]}

In a component the calls go to the runner, under `gristmill dev --native` too (`gristmill_guest.native`), anywhere else to a fake
(`gristmill_guest.testing`).
"""

from ._attempt import Function, handler
from ._context import checkpoint, config, fuel_remaining, is_cancelled, log, now, progress
from ._failure import (
    CheckpointTooLarge,
    CheckpointUnavailable,
    EnqueueRefused,
    Failure,
    NoAnswer,
    Reject,
    RequestRefused,
    Retry,
    StateRefused,
    StateUnavailable,
    UnknownTopic,
)
from ._http import Request, Response, http
from ._job import Job
from ._payload import JSON, TEXT, Json, Payload, Result, Snooze
from ._queue import Links, NewJob, enqueue
from ._state import state

__all__ = [
    "JSON",
    "TEXT",
    "CheckpointTooLarge",
    "CheckpointUnavailable",
    "EnqueueRefused",
    "Failure",
    "Function",
    "Job",
    "Json",
    "Links",
    "NewJob",
    "NoAnswer",
    "Payload",
    "Reject",
    "Request",
    "RequestRefused",
    "Response",
    "Result",
    "Retry",
    "Snooze",
    "StateRefused",
    "StateUnavailable",
    "UnknownTopic",
    "checkpoint",
    "config",
    "enqueue",
    "fuel_remaining",
    "handler",
    "http",
    "is_cancelled",
    "log",
    "now",
    "progress",
    "state",
]
