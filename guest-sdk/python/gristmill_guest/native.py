"""The runner's side on plain CPython, for `gristmill dev --native`. No component has it.

The runner starts `python -m gristmill_guest.native handler`, and talks to it over standard input and output: one JSON document a line. It sends a job;
what this process says until the end of that is a log line, or a question, which is answered with one line. Under `gristmill replay --native` it is the
recording of an attempt that answers (`_replay`).
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import threading
import time
from base64 import b64decode, b64encode
from typing import Any, Callable, Iterator, Optional

from . import _host, check
from ._failure import Failure, Reject
from ._job import Job
from ._payload import Snooze, millis

#: Files below it are the author's.
PROJECT = os.getcwd() + "/"

_from_runner: Any = None
_to_runner: Any = None
#: A thread of the handler's may ask, too.
_lock = threading.RLock()
#: What the runner said of the job that runs; None between two jobs.
_job: Optional[dict] = None
#: The store's clock minus this machine's, in milliseconds.
_clock_offset = 0


def get(name: str) -> Optional[str]:
    return _job["config"].get(name) if _job else None


def secret(name: str) -> Optional[bytes]:
    return _bytes(_job["secrets"].get(name)) if _job else None


def now() -> int:
    return _machine_time() + _clock_offset


def fuel_remaining() -> int:
    """Nothing counts it here."""
    return 2**63 - 1


def is_cancelled() -> bool:
    return _ask("is-cancelled", lambda code, message: RuntimeError(message))


def progress(basis_points: int, note: Optional[str]) -> None:
    _log("info", "progress", note or "", [("basis-points", str(basis_points))])


def emit(level: str, message: str, fields: list[tuple[str, str]]) -> None:
    _log(level, "log", message, fields)


def enabled(level: str) -> bool:
    return True


def checkpoint(state: bytes, failed: Callable[[bool, str], Exception]) -> None:
    _ask("checkpoint", lambda code, message: failed(code == "too-large", message), state=_payload(state))


def enqueue(job: Any, failed: Callable[[bool, str], Exception]) -> str:
    assert _job, "only a job can enqueue others"
    spec = {
        "id": _new_id(),
        "tenant": _job["job"]["spec"]["tenant"],
        "topic": job.topic,
        "body": _payload(job.body.data, job.body.content_type),
        "metadata": job.metadata,
        "key": job.key,
        "priority": job.priority,
        "unique": None if job.unique is None else {"value": job.unique, "window_ms": job.unique_window},
        "after": job.links.after,
        "after_failed": job.links.after_failed,
        "batch": job.links.batch,
        "open": job.links.open,
    }
    due = "now" if job.not_before is None else {"at_ms": job.not_before}
    return _ask("enqueue", lambda code, message: failed(code == "unknown-topic", message), job={"spec": spec, "due": due})


def get_state(refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]) -> Optional[bytes]:
    return _bytes(_ask("state", _state_error(refused, unavailable)))


def set_state(
    value: Optional[bytes], refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]
) -> None:
    _ask("set-state", _state_error(refused, unavailable), value=None if value is None else _payload(value))


def _state_error(refused: Any, unavailable: Any) -> Callable[[str, str], Exception]:
    return lambda code, message: unavailable(message) if code == "state-unavailable" else refused(code, message)


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict:
    from . import _native_http  # it takes long to import

    return _native_http.send(request, failed)


def exported(attempt: Callable[[Any], Any]) -> Any:
    return attempt


def _ask(question: str, failed: Callable[[str, str], Exception], **given: Any) -> Any:
    with _lock:
        if _job is None:
            raise RuntimeError("only while a job runs can the runner be asked")
        _say(question, **given)
        answer = _next()
    if answer is None:
        os._exit(1)  # the runner is gone, and whoever waits for this job knows
    if "ok" not in answer:
        raise _not_recorded(answer["message"]) if answer["code"] == "asks-else" else failed(answer["code"], answer["message"])
    return answer["ok"]


def _not_recorded(message: str) -> BaseException:
    from ._replay import AsksElse

    return AsksElse(message)


def _say(what: str, **given: Any) -> None:
    line = json.dumps({"say": what, **given}, default=str).encode()
    with _lock:
        _to_runner.write(line + b"\n")
        _to_runner.flush()


def _next() -> Any:
    line = _from_runner.readline()
    return json.loads(line) if line else None


def _log(level: str, source: str, message: str, fields: list[tuple[str, str]]) -> None:
    with _lock:
        if _job is None:  # a thread that goes on after its job
            print(message, *(f"{name}={value}" for name, value in fields), file=sys.__stderr__)
        else:
            _say("log", level=level, source=source, message=_text(message), fields=[(name, _text(it)) for name, it in fields])


def _text(text: str) -> str:
    """Half a surrogate pair is no text to anybody but Python."""
    return text.encode(errors="replace").decode()


class _Lines(io.TextIOBase):
    """Standard output or error: what the handler prints becomes lines of the job's log."""

    def __init__(self, source: str, level: str) -> None:
        self.source, self.level, self.begun = source, level, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            _log(self.level, self.source, line, [])
        return len(text)

    def end(self) -> None:
        """A last line without an end is a line too."""
        if self.begun:
            self.write("\n")


class _ToHost(logging.Handler):
    """Lines of the standard `logging`, as every library writes them."""

    def emit(self, record: logging.LogRecord) -> None:
        level = "error" if record.levelno >= 40 else "warn" if record.levelno >= 30 else "info"
        emit("debug" if record.levelno < 20 else level, self.format(record), [("logger", record.name)])


def _payload(data: bytes, content_type: Optional[str] = None) -> dict:
    return {"base64": b64encode(data).decode(), "content_type": content_type}


def _bytes(payload: Optional[dict]) -> Optional[bytes]:
    if payload is None:
        return None
    return payload["text"].encode() if "text" in payload else b64decode(payload["base64"])


_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _new_id() -> str:
    """A ULID."""
    number = _machine_time() + _clock_offset << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5))


def _machine_time(time_ns: Callable[[], int] = time.time_ns) -> int:
    return time_ns() // 1_000_000


def _jobs() -> Iterator[Any]:
    """The runner's jobs, until it has no more."""
    global _job, _clock_offset

    while (asked := _next()) is not None:
        _job, spec = asked, asked["job"]["spec"]
        _clock_offset = asked["now_ms"] - _machine_time()
        yield Job(
            id=spec["id"],
            tenant=spec["tenant"],
            topic=spec["topic"],
            body=_bytes(spec["body"]),
            content_type=spec["body"].get("content_type"),
            metadata=[(name, value) for name, value in spec["metadata"]],
            key=spec["key"],
            attempt=asked["attempt"],
            max_attempts=asked["max_attempts"],
            enqueued_at=asked["job"]["enqueued_at_ms"],
            due_at=asked["job"]["due_at_ms"],
            deadline=asked["deadline_ms"],
            checkpoint=_bytes(asked["checkpoint"]),
        )


def _end(ending: Any) -> None:
    """Says how the attempt ended."""
    global _job
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, _Lines):
            stream.end()
    with _lock:
        _job = None
        if isinstance(ending, Snooze):
            return _say("snooze", ms=millis(ending.wait))
        if not isinstance(ending, Failure):
            return _say("complete", result=ending and _payload(ending.data, ending.content_type))
        context = ending.context and _payload(ending.context.data, ending.context.content_type)
        detail = {"code": _text(ending.code), "message": _text(ending.message), "context": context}
        if isinstance(ending, Reject):
            return _say("reject", detail=detail)
        after = getattr(ending, "after", None)
        _say("retry", detail=detail, after_ms=None if after is None else millis(after))


def _take_pipes() -> None:
    """Keeps the pipes to the runner from whatever reads standard input or prints, in Python or not."""
    global _from_runner, _to_runner
    _from_runner, _to_runner = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr


def _leave_pipes() -> None:
    """In a fork of this process: the job is not its own, and the runner must not hear it."""
    global _job, _lock
    _job, _lock = None, threading.RLock()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, _from_runner.fileno())
    os.dup2(nothing, _to_runner.fileno())


def _load(name: str) -> Callable[[Any], Any]:
    """Imports the handler's module; ends the process if it has none, with what CPython says of it."""
    try:
        module = __import__(name)  # its traceback has no frames of importlib's
    except BaseException as error:
        check.fail(error)
    return check.exported_by(module, name)


def main(name: str) -> None:
    _take_pipes()
    _host.current = sys.modules[__name__]
    os.register_at_fork(after_in_child=_leave_pipes)
    # Before the author's modules, as in a component: there `logging.basicConfig` changes nothing then.
    logging.basicConfig(level=logging.DEBUG, format="%(message)s", handlers=[_ToHost()])
    replays = os.environ.get("GRISTMILL_REPLAY")
    if replays:
        from . import _replay

        _replay.begin(replays)
    attempt = _load(name)
    sys.stdout, sys.stderr = _Lines("stdout", "info"), _Lines("stderr", "warn")
    _say("loaded", **({"replays": True} if replays else {}))
    for job in _jobs():
        _end(attempt(job))


if __name__ == "__main__":
    main(sys.argv[1])
