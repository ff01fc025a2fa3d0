"""Write a handler as a Python function: what the contract `wit/job.wit` offers, in Python's own terms.

    from gristmill import Job, handler, log

    @handler
    def greet(job: Job) -> dict:
        log.info("greet", attempt=job.attempt)
        return {"hello": job.json()["name"]}

In a component the calls go to the runner (`gristmill_host`), under `gristmill dev --native` too (`gristmill_native`), anywhere else to a
fake (`gristmill_testing`).
"""

from __future__ import annotations

import json as _json
import traceback as _traceback
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Callable, Iterable, Mapping, Optional, Union, overload

try:
    import gristmill_host as _host
except ModuleNotFoundError as _missing:
    if _missing.name != "componentize_py_types":
        raise
    import gristmill_testing as _host  # type: ignore[no-redef]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_ABSENT: Any = object()


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


def _enqueue_failed(is_unknown_topic: bool, message: str) -> Failure:
    return (UnknownTopic if is_unknown_topic else EnqueueRefused)("enqueue-failed", message)


class CheckpointTooLarge(Reject):
    """The topic allows no checkpoint of this size: `checkpoint-failed`."""


class CheckpointUnavailable(Retry):
    """The store could not take the checkpoint: `checkpoint-failed`."""


def _checkpoint_failed(is_too_large: bool, message: str) -> Failure:
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


@dataclass(frozen=True)
class Payload:
    """Bytes and the format that they are in; None means opaque bytes."""

    data: bytes
    content_type: Optional[str] = None


@dataclass(frozen=True)
class Json:
    """Any value as JSON. A dict or a list needs no `Json` around it."""

    value: Any


@dataclass(frozen=True)
class Snooze:
    """Neither done nor failed: run the job again after `wait`, without using up an attempt."""

    wait: timedelta


Result = Union[None, str, bytes, dict, list, Json, Payload]


@dataclass(frozen=True)
class Job:
    """What there is to do. All times are milliseconds since the Unix epoch, by the store's clock."""

    id: str
    tenant: str
    topic: str
    body: bytes
    content_type: Optional[str] = None
    metadata: list[tuple[str, str]] = field(default_factory=list)
    #: Jobs of the topic with the same key run one at a time and in order.
    key: Optional[str] = None
    attempt: int = 1
    max_attempts: int = 5
    enqueued_at: int = 0
    due_at: int = 0
    deadline: int = 0
    #: What an earlier attempt saved with `checkpoint()`.
    checkpoint: Optional[bytes] = None

    def text(self) -> str:
        """The body as text; a body that is no UTF-8 rejects the job as `bad-payload`."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise Reject("bad-payload", f"the body is not UTF-8 from byte {error.start} on") from None

    def json(self) -> Any:
        """The body as JSON; a body that is none rejects the job as `bad-payload`."""
        text = self.text()
        try:
            value = _json.loads(text, parse_constant=_refuse_constant)
            if "\\ud" in text.lower():
                _json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair, which is no text
            return value
        except (ValueError, RecursionError) as error:
            raise Reject("bad-payload", f"the body is not JSON: {error}") from None

    def meta(self, name: str) -> Optional[str]:
        """The first header of this name."""
        return next((value for found, value in self.metadata if found == name), None)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


Function = Callable[[Job], Union[Result, Snooze]]


def handler(function: Function) -> Function:
    """Makes this function the one that does the jobs. It stays a plain function, for tests."""
    # The component's builder looks for a class of this name in the module that it is given.
    function.__globals__["Handler"] = _host.exported(lambda job: attempt(function, job))
    return function


def attempt(function: Function, job: Job) -> Union[Payload, Snooze, Failure, None]:
    """One attempt: what `function` makes of `job`.

    An exception of any other kind is a retry, its traceback logged and kept; a request that the runner refused is a reject.
    """
    try:
        result = function(job)
        return result if isinstance(result, Snooze) else payload(result)
    except Failure as failure:
        return failure
    except BaseException as error:  # SystemExit too: the instance must answer, or its last words are lost
        return _request_refused(error) or _exception(error)


#: Letters of a traceback that are kept with the attempt, the last ones.
_TRACE_MAX = 4000
#: Where the files of the project are: in a component, unless the host says another place.
_PROJECT = getattr(_host, "PROJECT", "/0/")
#: What the runner says of a request over HTTP that another try would not change.
_REFUSED = {
    "HttpError_Denied": ("http-denied", "the request is not granted: {}"),
    "HttpError_Invalid": ("http-invalid", "the request cannot be sent: {}"),
    "HttpError_TooLarge": ("http-too-large", "the request or its answer is larger than {} bytes"),
    "HttpError_TooMany": ("http-too-many", "one attempt may send no more than {} requests"),
}


def _request_refused(error: BaseException) -> Optional[Reject]:
    """Libraries wrap errors in theirs: one of those that led to this one may be the runner's refusal."""
    cause: Optional[BaseException] = error
    while cause is not None:
        failure = getattr(cause, "failure", None)
        if isinstance(failure, Reject):
            return failure
        cause = cause.__cause__ or cause.__context__
    refusal = getattr(error, "value", None)
    failure = _http_failure(type(refusal).__name__, getattr(refusal, "value", None))
    return failure if isinstance(failure, Reject) else None


def _http_failure(kind: str, about: Any) -> Failure:
    """What an error of the contract's `http` is to a handler; `kind` is its name there."""
    if kind in _REFUSED:
        code, why = _REFUSED[kind]
        return RequestRefused(code, why.format(about))
    if kind == "HttpError_Timeout":
        return NoAnswer("http-timeout", "no answer in time")
    return NoAnswer("http-unreachable", f"nothing answers: {about}")


def _exception(error: BaseException) -> Retry:
    trace = error.__traceback__ and error.__traceback__.tb_next  # without this file's own line
    text = "".join(_traceback.format_exception(type(error), error, trace)).rstrip().replace(f'"{_PROJECT}', '"')
    log.error("uncaught exception", traceback=text)
    message = "".join(_traceback.format_exception_only(type(error), error)).strip()
    places = [frame for frame in _traceback.extract_tb(trace) if _is_of_project(frame.filename)]
    if places:
        message += f" ({places[-1].filename.removeprefix(_PROJECT)}:{places[-1].lineno})"
    return Retry("exception", message, context=text[-_TRACE_MAX:])


def _is_of_project(file: str) -> bool:
    return file.startswith(_PROJECT) and "/site-packages/" not in file and not file.startswith(f"{_PROJECT}gristmill")


def payload(value: Result) -> Optional[Payload]:
    """What a result, a follow-up's body or a failure's context is sent as."""
    if value is None or isinstance(value, Payload):
        return value
    if isinstance(value, bytes):
        return Payload(value)
    if isinstance(value, str):
        return Payload(value.encode(), TEXT)
    if isinstance(value, (dict, list, Json)):
        value = value.value if isinstance(value, Json) else value
        text = _json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return Payload(text.encode(), JSON)
    raise TypeError(f"{type(value).__name__} is no payload: give None, text, bytes, a dict, a list, or Json(value)")


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
    json: Any = _ABSENT,
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
        not_before = now() + _millis(after)
    elif at is not None:
        not_before = int(at.timestamp() * 1000)
    return _host.enqueue(
        NewJob(
            topic=topic,
            body=payload(body if json is _ABSENT else Json(json)) or Payload(b""),
            metadata=list(metadata.items() if isinstance(metadata, Mapping) else metadata),
            key=key,
            not_before=not_before,
            unique=unique,
            priority=priority,
            unique_window=None if unique_for is None else _millis(unique_for),
            links=Links(list(after_jobs), after_failed, batch, open),
        ),
        _enqueue_failed,
    )


def _millis(duration: timedelta) -> int:
    return max(0, duration // timedelta(milliseconds=1))


class _Log:
    """Log lines of the job; the runner adds topic, job and attempt. Values that are no text are written as JSON."""

    def trace(self, message: str, /, **fields: Any) -> None:
        self._emit("trace", message, fields)

    def debug(self, message: str, /, **fields: Any) -> None:
        self._emit("debug", message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        self._emit("info", message, fields)

    def warn(self, message: str, /, **fields: Any) -> None:
        self._emit("warn", message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        self._emit("error", message, fields)

    def enabled(self, level: str) -> bool:
        """Whether anybody keeps lines of this level, such as "debug"."""
        return _host.enabled(level)

    def _emit(self, level: str, message: str, fields: dict[str, Any]) -> None:
        _host.emit(level, message, [(name, _field(value)) for name, value in fields.items()])


def _field(value: Any) -> str:
    return value if isinstance(value, str) else _json.dumps(value, ensure_ascii=False, default=str)


class _Config:
    """What the manifest grants this topic."""

    @overload
    def get(self, name: str) -> Optional[str]: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """A setting; `default` if it is missing or not granted."""
        value = _host.get(name)
        return default if value is None else value

    def secret(self, name: str) -> Optional[bytes]:
        """A secret; None if it is missing or not granted."""
        return _host.secret(name)


class _State:
    """What the jobs of a key leave for each other, in a topic with `state = true`. Of the jobs of a key one runs at a time.

    What is set is stored in the step that completes this job, or not at all; the last call counts. Raises `StateRefused` and
    `StateUnavailable`.
    """

    def get(self) -> Optional[bytes]:
        """The state; None if there is none. After `set`, what that said."""
        return _host.get_state(StateRefused, StateUnavailable)

    def set(self, value: Optional[bytes]) -> None:
        """Has the state be these bytes; None deletes it."""
        _host.set_state(value, StateRefused, StateUnavailable)

    def json(self, default: Any = None) -> Any:
        """The state from JSON; `default` if there is none."""
        value = self.get()
        try:
            return default if value is None else _json.loads(value)
        except ValueError as error:
            raise Reject("bad-state", f"the state is not the expected JSON: {error}") from None

    def set_json(self, value: Any) -> None:
        """Has the state be this value as JSON."""
        self.set(_json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode())


@dataclass(frozen=True)
class Request:
    """A request over HTTP as the runner gets it."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    body: Optional[bytes]
    timeout: Optional[int]
    redirects: int


@dataclass(frozen=True)
class Response:
    """A whole answer, whatever its status. Names of headers are in lower case, and may repeat."""

    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    #: Where it came from: the request's own, unless a redirect was followed.
    url: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is one of 200 to 299."""
        return 200 <= self.status < 300

    def header(self, name: str) -> Optional[str]:
        """The first header of this name, in whatever case it is asked for."""
        return next((value for found, value in self.headers if found == name.lower()), None)

    def text(self) -> str:
        """The body as text; what is not UTF-8 is replaced."""
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON; a body that is none is a retry: `bad-answer`."""
        try:
            return _json.loads(self.body)
        except ValueError as error:
            raise Retry("bad-answer", f"the answer is not JSON: {error}") from None


class _Http:
    """Requests over HTTP, to the hosts that the manifest grants this topic."""

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Union[Mapping[str, str], Iterable[tuple[str, str]]] = (),
        body: Union[None, str, bytes, Payload] = None,
        json: Any = _ABSENT,
        timeout: Optional[timedelta] = None,
        redirects: int = 0,
    ) -> Response:
        """Sends a request and waits for the whole answer, whatever its status.

        `json` is any value, instead of `body`. `timeout` is for all of it; None, or more than is granted: what is granted. It follows so many
        `redirects`, 20 at most; the next one is the answer. Raises `RequestRefused` and `NoAnswer`. A component that
        uses it runs only in topics that grant requests.
        """
        content = payload(body if json is _ABSENT else Json(json))
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if content and content.content_type and not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("content-type", content.content_type))
        limit = None if timeout is None else _millis(timeout)
        request = Request(method, url, pairs, content and content.data, limit, redirects)
        return Response(**_host.send(request, _http_failure))


log = _Log()
config = _Config()
state = _State()
http = _Http()


def now() -> int:
    """Milliseconds since the Unix epoch, by the store's clock."""
    return _host.now()


def fuel_remaining() -> int:
    """Fuel left for this attempt."""
    return _host.fuel_remaining()


def is_cancelled() -> bool:
    """True once the job was cancelled or the runner is ending: a long handler should ask, and stop."""
    return _host.is_cancelled()


def checkpoint(state: bytes) -> None:
    """Saves durably where this job is; the next attempt finds it in `job.checkpoint`. Raises `CheckpointTooLarge` and
    `CheckpointUnavailable`."""
    _host.checkpoint(state, _checkpoint_failed)


def progress(done: float, note: Optional[str] = None) -> None:
    """For people who watch: how much is done, from 0 to 1, and a short note."""
    _host.progress(round(min(max(done, 0.0), 1.0) * 10_000), note)
