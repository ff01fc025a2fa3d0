"""How an attempt fails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

from ._payload import Result, payload


class Failure(Exception):
    """Ends the attempt. `code` is stable and for machines, `message` for people; `context` is kept with the attempt."""

    def __init__(self, code: str, message: str, *, context: Result = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.context = payload(context)


class Retry(Failure):
    """Transient: the job is tried again, after `after` or else the topic's backoff, until its attempts are used up."""

    def __init__(
        self, code: str, message: str, *, after: Optional[timedelta] = None, context: Result = None
    ) -> None:
        super().__init__(code, message, context=context)
        self.after = after


class Reject(Failure):
    """Permanent: the job is dead at once, and a person finds it with this code and message on it."""


class EnqueueRefused(Reject):
    """The runner refused a follow-up job, and would again: `enqueue-failed`."""


class UnknownTopic(Retry):
    """There is no such topic to enqueue to yet: `enqueue-failed`."""


def enqueue_failed(is_unknown_topic: bool, message: str) -> Failure:
    return (UnknownTopic if is_unknown_topic else EnqueueRefused)("enqueue-failed", message)


class CheckpointTooLarge(Reject):
    """The topic allows no checkpoint of this size: `checkpoint-failed`."""


class CheckpointUnavailable(Retry):
    """The store could not take the checkpoint: `checkpoint-failed`."""


def checkpoint_failed(is_too_large: bool, message: str) -> Failure:
    return (CheckpointTooLarge if is_too_large else CheckpointUnavailable)("checkpoint-failed", message)


class StateRefused(Reject):
    """The job has no key (`no-key`), or the state is too large (`state-too-large`): another try would end the same."""


class StateUnavailable(Retry):
    """The store did not answer."""

    def __init__(self, message: str) -> None:
        super().__init__("state-unavailable", f"the state cannot be read now: {message}")


class RequestRefused(Reject):
    """The runner refused a request over HTTP, and would again: `http-denied`, `-invalid`, `-too-large` or `-too-many`."""


class NoAnswer(Retry):
    """No whole answer came to a request: `http-timeout` or `http-unreachable`."""


#: What the runner says of a request over HTTP that another try would not change.
_REFUSED = {
    "HttpError_Denied": ("http-denied", "the request is not granted: {}"),
    "HttpError_Invalid": ("http-invalid", "the request cannot be sent: {}"),
    "HttpError_TooLarge": ("http-too-large", "the request or its answer is larger than {} bytes"),
    "HttpError_TooMany": ("http-too-many", "one attempt may send no more than {} requests"),
}


def http_failure(kind: str, about: Any) -> Failure:
    """What an error of the contract's `http` is to a handler; `kind` is its name there."""
    if kind in _REFUSED:
        code, why = _REFUSED[kind]
        return RequestRefused(code, why.format(about))
    if kind == "HttpError_Timeout":
        return NoAnswer("http-timeout", "no answer in time")
    return NoAnswer("http-unreachable", f"nothing answers: {about}")
