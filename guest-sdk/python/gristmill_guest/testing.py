"""A fake runner for tests: `Host` grants, refuses and remembers. No WebAssembly and no server."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ._failure import Failure
from ._job import Job
from ._payload import Payload, Snooze, payload

#: The fake clock stands still: 2026-01-01T00:00:00Z.
NOW = 1_767_225_600_000


@dataclass
class Host:
    """What the handler finds, and what it did. Settings and secrets are those given; every topic may be enqueued to.

        host = Host(config={"greylist": "example.net"})
        ending = host.run(welcome, {"email": "ada@example.org", "name": "Ada"})
    """

    config: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    now: int = NOW
    fuel: int = 1_000_000_000_000
    cancelled: bool = False
    #: Topics that may not be enqueued to.
    denied: frozenset[str] = frozenset()
    #: The state of the job's key: what it is before an attempt, and what a completed one left.
    state: Optional[bytes] = None
    #: The most bytes that a state may have.
    state_limit: int = 65_536
    #: What requests over HTTP are answered with, one after the other: a `Response`, or a `NoAnswer` to raise. Then none is granted.
    answers: list[Any] = field(default_factory=list)

    #: Requests over HTTP.
    requests: list[Any] = field(default_factory=list)
    enqueued: list[Any] = field(default_factory=list)
    #: (level, message, fields)
    logs: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    checkpoint: Optional[bytes] = None
    progress: list[tuple[int, Optional[str]]] = field(default_factory=list)
    _has_key: bool = field(default=False, init=False, repr=False)

    def run(self, function: Callable[..., Any], body: Any = b"", **job: Any) -> Any:
        """One attempt at a job: a `Payload`, a `Snooze`, None, or the `Retry` or `Reject` that ended it.

        `body` is bytes, text, or a dict or list for JSON; what else a job has is given by name, as in `attempt=2`.
        """
        from ._attempt import attempt  # here, since it imports this module

        given = payload(body) or Payload(b"")
        job = {"id": "01K" + "0" * 23, "tenant": "default", "topic": "test", "content_type": given.content_type, **job}
        times = {"enqueued_at": self.now, "due_at": self.now, "deadline": self.now + 30_000}
        global _current
        before, _current = _current, self
        state_before, self._has_key = self.state, bool(job.get("key"))
        ending: Any = None
        try:
            ending = attempt(function, Job(body=given.data, **{**times, **job}))
            return ending
        finally:
            if isinstance(ending, (Failure, Snooze)):
                self.state = state_before
            _current = before


_current = Host()


def exported(attempt: Callable[[Any], Any]) -> Any:
    return attempt


def get(name: str) -> Optional[str]:
    return _current.config.get(name)


def secret(name: str) -> Optional[bytes]:
    return _current.secrets.get(name)


def now() -> int:
    return _current.now


def fuel_remaining() -> int:
    return _current.fuel


def is_cancelled() -> bool:
    return _current.cancelled


def progress(basis_points: int, note: Optional[str]) -> None:
    _current.progress.append((basis_points, note))


def emit(level: str, message: str, fields: list[tuple[str, str]]) -> None:
    _current.logs.append((level, message, dict(fields)))
    if level == "error":
        print(message, *(value for _, value in fields), sep="\n", file=sys.stderr)


def enabled(level: str) -> bool:
    return True


def checkpoint(state: bytes, failed: Callable[[bool, str], Exception]) -> None:
    _current.checkpoint = state


def enqueue(job: Any, failed: Callable[[bool, str], Exception]) -> str:
    if job.topic in _current.denied:
        raise failed(False, f"this topic may not enqueue to `{job.topic}`; name it in the manifest's `enqueue` grant")
    _current.enqueued.append(job)
    return f"01K1{len(_current.enqueued):022}"


def get_state(refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]) -> Optional[bytes]:
    _check_key(refused)
    return _current.state


def set_state(
    value: Optional[bytes], refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]
) -> None:
    _check_key(refused)
    if value is not None and len(value) > _current.state_limit:
        raise refused("state-too-large", f"the state is larger than {_current.state_limit} bytes")
    _current.state = value


def _check_key(refused: Callable[[str, str], Exception]) -> None:
    if not _current._has_key:
        raise refused("no-key", "the job has no key, so it has no state: push it with one")


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict[str, Any]:
    _current.requests.append(request)
    if not _current.answers:
        raise failed("HttpError_Denied", f"{request.url}: the fake has no answer, give it one with Host(answers=[…])")
    answer = _current.answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return vars(answer)
