"""What differs on plain CPython when a recorded attempt is done again, for `gristmill replay --native`: the handler asks the recording, and nobody else.

It asks what it asks in a component, by the same ways. The time of day is asked for, too, and libraries that send requests find the sockets of a component,
whose requests the runner answers. Here a debugger can hold it: `pdb`, at the terminal itself, since the handler's standard input and output are not.
"""

from __future__ import annotations

import bdb
import datetime
import pdb
import sys
import time
import types
from typing import Any, Callable, Optional

from . import _host
from . import _sockets  # first, for a CPython without TLS
from ._failure import http_failure

import socket  # noqa: E402,F401 (`replace_sockets` changes what is imported)
import ssl  # noqa: E402,F401

#: This package's files are below it.
_SDK = __file__.rpartition("/")[0] + "/"
_Datetime = datetime.datetime


class AsksElse(BaseException):
    """The handler asks something else than was recorded, and there is no answer. It is no `Exception`, so that few catch it."""


def begin(debugger: str) -> None:
    """Before the author's modules are imported. `debugger` is "off", "terminal" or "first"."""
    for answered in (get, secret, now, enabled, send):
        setattr(_host.current, answered.__name__, answered)
    _replace_clock()
    _sockets.replace_sockets()
    if debugger != "off":
        _host.current.debugger = _Debugger(debugger == "first")
        sys.breakpointhook = pdb.set_trace = _stop


def get(name: str) -> Optional[str]:
    return _ask("config", name=name) if _runs() else None


def secret(name: str) -> Optional[bytes]:
    return _host.current._bytes(_ask("secret", name=name)) if _runs() else None


def enabled(level: str) -> bool:
    return _ask("enabled", level=level) if _runs() else True


def now() -> int:
    return time.time_ns() // 1_000_000


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict:
    def refused(code: str, about: str) -> Exception:
        return failed("HttpError_" + code.title().replace("-", ""), about)

    asked = {**vars(request), "is_by_library": failed is not http_failure}
    asked["body"] = None if request.body is None else _host.current._payload(request.body)
    answer = _host.current._ask("http", refused, request=asked)
    headers = [(name, value) for name, value in answer["headers"]]
    return {**answer, "headers": headers, "body": _host.current._bytes(answer["body"])}


def _ask(question: str, **given: Any) -> Any:
    return _host.current._ask(question, lambda code, message: RuntimeError(message), **given)


def _runs() -> bool:
    return _host.current._job is not None


def _replace_clock() -> None:
    """Whatever asks for the time of day gets a recorded one while a job runs."""
    machine, localtime, gmtime = time.time_ns, time.localtime, time.gmtime
    written = {"strftime": time.strftime, "asctime": time.asctime}

    def time_ns() -> int:
        if not _runs():
            return machine()
        seconds, nanoseconds = _ask("time")
        return seconds * 1_000_000_000 + nanoseconds

    time.time_ns = time_ns
    time.time = lambda: time.time_ns() / 1e9
    time.localtime = lambda seconds=None: localtime(time.time() if seconds is None else seconds)
    time.gmtime = lambda seconds=None: gmtime(time.time() if seconds is None else seconds)
    time.ctime = lambda seconds=None: time.asctime(time.localtime(seconds))
    time.asctime = lambda parts=None: written["asctime"](time.localtime() if parts is None else parts)
    time.strftime = lambda form, parts=None: written["strftime"](form, time.localtime() if parts is None else parts)

    def at_now(cls: Any, tz: Any = None) -> Any:
        at = time.time_ns()
        return cls.fromtimestamp(at // 1_000_000_000, tz).replace(microsecond=at // 1000 % 1_000_000)

    def utcnow(cls: Any) -> Any:
        return at_now(cls, datetime.timezone.utc).replace(tzinfo=None)

    # CPython's own asks the machine. What is made of both is of either.
    is_instance = {"__instancecheck__": lambda cls, value: isinstance(value, _Datetime)}
    kind = type("datetime", (type,), is_instance)
    named = {"__module__": "datetime", "__qualname__": "datetime", "now": classmethod(at_now), "utcnow": classmethod(utcnow)}
    datetime.datetime = kind("datetime.datetime", (_Datetime,), named)  # type: ignore[misc]


class _Pdb(pdb.Pdb):
    """Shows the author's frames and those of packages, and not how this package came to call them."""

    def get_stack(self, frame: Any, trace: Any) -> Any:
        stack, at = super().get_stack(frame, trace)
        shown = [number for number, (of, _) in enumerate(stack) if not _is_ours(of)]
        return ([stack[number] for number in shown], shown.index(at)) if at in shown else (stack, at)


def _is_ours(frame: Any) -> bool:
    return frame.f_code.co_filename.startswith(_SDK) or frame.f_globals.get("__name__") in ("bdb", "runpy")


class _Debugger:
    """`pdb` around an attempt."""

    def __init__(self, is_first: bool) -> None:
        #: Stops at the function's first line; None: it is just called.
        self.call = (lambda function, job: _pdb().runcall(function, job)) if is_first else None

    def post_mortem(self, error: BaseException) -> None:
        """Where the exception was raised; or, if that was in this package, where the author's code called it."""
        if isinstance(error, bdb.BdbQuit):
            return
        trace, own = error.__traceback__ and error.__traceback__.tb_next, []
        while trace is not None:
            own.append(trace)
            trace = trace.tb_next
        while own and _is_ours(own[-1].tb_frame):
            own.pop()
        for each in reversed(own):
            trace = types.TracebackType(trace, each.tb_frame, each.tb_lasti, each.tb_lineno)
        if trace is None:
            return
        debugger = _pdb()
        debugger.message(f"{type(error).__name__}: {error}\nthe attempt ends with it: q or c goes on")
        debugger.reset()
        debugger.interaction(None, trace)


def _stop(*_given: Any, **_named: Any) -> None:
    """Where the handler has `breakpoint()`."""
    _pdb().set_trace(sys._getframe(1))


def _pdb() -> _Pdb:
    try:
        debugger = _Pdb(skip=["gristmill_guest.*"], stdin=open("/dev/tty"), stdout=open("/dev/tty", "w"))
    except OSError as error:
        sys.exit(f"pdb needs a terminal, and there is none: {error}")
    debugger.use_rawinput = False
    return debugger
