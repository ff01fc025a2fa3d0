"""Follow-up jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Iterable, Mapping, Optional, Union

from . import _host
from ._failure import enqueue_failed
from ._payload import ABSENT, Json, Payload, millis, payload


@dataclass(frozen=True)
class Links:
    """Which jobs a follow-up job waits for, and which one waits for it, as the runner gets it."""

    after: list[str] = field(default_factory=list)
    after_failed: str = "dead"
    batch: Optional[str] = None
    open: bool = False


@dataclass(frozen=True)
class NewJob:
    """A follow-up job as the runner gets it."""

    topic: str
    body: Payload
    metadata: list[tuple[str, str]]
    key: Optional[str]
    not_before: Optional[int]
    unique: Optional[str]
    priority: str
    unique_window: Optional[int]
    links: Links = Links()


def enqueue(
    topic: str,
    body: Union[None, str, bytes, Payload] = None,
    *,
    json: Any = ABSENT,
    after: Optional[timedelta] = None,
    at: Optional[datetime] = None,
    unique: Optional[str] = None,
    unique_for: Optional[timedelta] = None,
    priority: str = "normal",
    key: Optional[str] = None,
    metadata: Union[Mapping[str, str], Iterable[tuple[str, str]]] = (),
    after_jobs: Iterable[str] = (),
    after_failed: str = "dead",
    batch: Optional[str] = None,
    open: bool = False,
) -> str:
    """Adds a job that becomes visible in the step that acknowledges this one, or not at all; returns its id.

    `json` is any value, instead of `body`. It is due `after` so long from now, or `at` a time (with a time zone), or
    at once. `unique` allows one waiting or running job per topic and value; with `unique_for`, one within that time.
    `priority` is "high", "normal" or "low". Jobs with the same `key` run one at a time and in order. Raises `EnqueueRefused` and
    `UnknownTopic`; the attempt may go on regardless.

    `after_jobs` are ids of jobs that have to end first, such as `job.id` or what an earlier `enqueue` returned; if one of them was
    not done, the job is dead too, or runs with `after_failed="run"`. `batch` is the id of a job that waits, and waits for this one
    too. With `open` the job waits until `gristmill job seal` or the HTTP API seals it, and all jobs that have it as their batch have ended.
    """
    if isinstance(after_jobs, str):
        raise TypeError("after_jobs: give a list of ids")
    if after_failed not in ("dead", "run"):
        raise ValueError(f'after_failed = "{after_failed}": allowed are "dead" and "run"')
    if priority not in ("high", "normal", "low"):
        raise ValueError(f'priority = "{priority}": allowed are "high", "normal" and "low"')
    if at is not None and at.tzinfo is None:
        raise ValueError("at: give it a time zone, such as datetime.timezone.utc")
    not_before = None
    if after is not None:
        not_before = _host.current.now() + millis(after)
    elif at is not None:
        not_before = int(at.timestamp() * 1000)
    return _host.current.enqueue(
        NewJob(
            topic=topic,
            body=payload(body if json is ABSENT else Json(json)) or Payload(b""),
            metadata=list(metadata.items() if isinstance(metadata, Mapping) else metadata),
            key=key,
            not_before=not_before,
            unique=unique,
            priority=priority,
            unique_window=None if unique_for is None else millis(unique_for),
            links=Links(list(after_jobs), after_failed, batch, open),
        ),
        enqueue_failed,
    )
