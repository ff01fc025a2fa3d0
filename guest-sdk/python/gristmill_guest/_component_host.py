"""The runner's side, inside a component: turns the SDK's calls into those of the generated bindings.

`wit_world` exists only while a component is built and when it runs.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Callable, Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import config, context, log, queue, types

from ._failure import Failure, Reject
from ._job import Job
from ._payload import Snooze, millis

try:
    from wit_world.imports import state
except ImportError:  # built for a world without it
    state = None  # type: ignore[assignment]

try:
    from wit_world.imports import http
except ImportError:
    http = None  # type: ignore[assignment]

get = config.get
secret = config.secret
now = context.now
fuel_remaining = context.fuel_remaining
is_cancelled = context.is_cancelled
progress = context.progress


def emit(level: str, message: str, fields: list[tuple[str, str]]) -> None:
    log.emit(log.Level[level.upper()], message, fields)


def enabled(level: str) -> bool:
    return log.enabled(log.Level[level.upper()])


def checkpoint(state: bytes, failed: Callable[[bool, str], Exception]) -> None:
    try:
        context.checkpoint(state)
    except Err as error:
        if isinstance(error.value, context.CheckpointError_TooLarge):
            raise failed(True, f"a checkpoint may have no more than {error.value.value} bytes") from None
        raise failed(False, error.value.value) from None


def enqueue(job: Any, failed: Callable[[bool, str], Exception]) -> str:
    wire = queue.NewJob(
        topic=job.topic,
        body=_wire(job.body),
        metadata=job.metadata,
        key=job.key,
        not_before=job.not_before,
        unique=job.unique,
        priority=queue.Priority[job.priority.upper()],
        unique_window=job.unique_window,
    )
    links = queue.Links(
        after=job.links.after,
        after_failed=queue.AfterFailed[job.links.after_failed.upper()],
        batch=job.links.batch,
        open=job.links.open,
    )
    try:
        return queue.enqueue_linked(wire, links)
    except Err as error:
        is_unknown_topic = isinstance(error.value, queue.LinkedError_UnknownTopic)
        raise failed(is_unknown_topic, _why_not(error.value, job.topic)) from None


def _why_not(error: queue.LinkedError, topic: str) -> str:
    if isinstance(error, queue.LinkedError_InvalidLinks):
        return f"the job for topic `{topic}` has invalid links: {error.value}"
    if isinstance(error, queue.LinkedError_TooLarge):
        return f"the body is larger than the {error.value} bytes that topic `{topic}` accepts"
    if isinstance(error, queue.LinkedError_TooMany):
        return f"one attempt may enqueue no more than {error.value} jobs"
    if isinstance(error, queue.LinkedError_UnknownTopic):
        return f"there is no topic `{topic}` to enqueue to; name it under `topics` in the manifest"
    return f"this topic may not enqueue to `{topic}`; name it in the manifest's `enqueue` grant"


def get_state(refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]) -> Optional[bytes]:
    return _of_state("get", (), refused, unavailable)


def set_state(
    value: Optional[bytes], refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]
) -> None:
    _of_state("set", (value,), refused, unavailable)


def _of_state(function: str, given: tuple[Any, ...], refused: Any, unavailable: Any) -> Any:
    if state is None:
        raise RuntimeError("this component keeps no state: write `from gristmill_guest import state` where it is used")
    try:
        return getattr(state, function)(*given)
    except Err as error:
        if isinstance(error.value, state.StateError_NoKey):
            raise refused("no-key", "the job has no key, so it has no state: push it with one") from None
        if isinstance(error.value, state.StateError_TooLarge):
            raise refused("state-too-large", f"the state is larger than {error.value.value} bytes") from None
        raise unavailable(error.value.value) from None


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict[str, Any]:
    if http is None:
        raise PermissionError(
            "this component sends no requests: the build found nothing that does; to have it send some, write `from gristmill_guest import http`"
        )
    try:
        answer = http.send(http.Request(**vars(request)))
    except Err as error:
        raise failed(type(error.value).__name__, getattr(error.value, "value", None)) from None
    return vars(answer)


def exported(attempt: Callable[[Any], Any]) -> type:
    """The class that the component exports. `attempt` makes an ending of a job."""
    class Handler(exports.Handler):
        def handle(self, job: types.Job) -> types.Outcome:
            fields = {name: value for name, value in vars(job).items() if name != "body"}
            body, content_type = job.body.data, job.body.content_type
            ending = attempt(Job(**fields, body=body, content_type=content_type))
            # What was printed without a line's end is a line too, and nothing flushes it after this.
            sys.stdout.flush()
            sys.stderr.flush()
            if isinstance(ending, Snooze):
                return types.Outcome_Snooze(millis(ending.wait))
            if isinstance(ending, Failure):
                raise Err(_failure(ending))
            return types.Outcome_Complete(_wire(ending))

    return Handler


def _failure(failure: Failure) -> types.Failure:
    detail = types.FailureDetail(failure.code, failure.message, _wire(failure.context))
    if isinstance(failure, Reject):
        return types.Failure_Reject(detail)
    after = getattr(failure, "after", None)
    return types.Failure_Retry((detail, None if after is None else millis(after)))


def _wire(payload: Any) -> Optional[types.Payload]:
    return payload and types.Payload(payload.data, payload.content_type)


class _ToHost(logging.Handler):
    """Lines of the standard `logging`, as every library writes them."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= 40 else "warn" if record.levelno >= 30 else "info"
        emit("debug" if record.levelno < 20 else level, self.format(record), [("logger", record.name)])


logging.basicConfig(level=logging.DEBUG, format="%(message)s", handlers=[_ToHost()])
