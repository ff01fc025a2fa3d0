"""One attempt: what the author's function makes of a job."""

from __future__ import annotations

import traceback
from typing import Callable, Optional, Union

from . import _host
from ._context import log
from ._failure import Failure, Reject, Retry, http_failure
from ._job import Job
from ._payload import Payload, Result, Snooze, payload

Function = Callable[[Job], Union[Result, Snooze]]


def handler(function: Function) -> Function:
    """Makes this function the one that does the jobs. It stays a plain function, for tests."""
    # The component's builder looks for a class of this name in the module that it is given.
    function.__globals__["Handler"] = _host.current.exported(lambda job: attempt(function, job))
    return function


def attempt(function: Function, job: Job) -> Union[Payload, Snooze, Failure, None]:
    """One attempt: what `function` makes of `job`.

    An exception of any other kind is a retry, its traceback logged and kept; a request that the runner refused is a reject.
    """
    # In a replay on plain CPython.
    debugger = getattr(_host.current, "debugger", None)
    try:
        result = debugger.call(function, job) if debugger and debugger.call else function(job)
        return result if isinstance(result, Snooze) else payload(result)
    except BaseException as error:  # SystemExit too: the instance must answer, or its last words are lost
        if debugger:
            debugger.post_mortem(error)
        return error if isinstance(error, Failure) else _request_refused(error) or _exception(error)


def _request_refused(error: BaseException) -> Optional[Reject]:
    """Libraries wrap errors in theirs: one of those that led to this one may be the runner's refusal."""
    cause: Optional[BaseException] = error
    while cause is not None:
        failure = getattr(cause, "failure", None)
        if isinstance(failure, Reject):
            return failure
        cause = cause.__cause__ or cause.__context__
    refusal = getattr(error, "value", None)
    failure = http_failure(type(refusal).__name__, getattr(refusal, "value", None))
    return failure if isinstance(failure, Reject) else None


#: Letters of a traceback that are kept with the attempt, the last ones.
_TRACE_MAX = 4000
#: What calls the author's function under a debugger.
_DEBUGGER = ("gristmill_guest._replay", "bdb")
#: This package's files are below it; they may lie in the author's project.
_SDK = __file__.rpartition("/")[0] + "/"


def _exception(error: BaseException) -> Retry:
    #: Where the files of the project are: in a component, unless the host says another place.
    project = getattr(_host.current, "PROJECT", "/0/")
    trace = error.__traceback__ and error.__traceback__.tb_next  # without this file's own line
    while trace and trace.tb_frame.f_globals.get("__name__") in _DEBUGGER:
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace)).rstrip().replace(f'"{project}', '"')
    log.error("uncaught exception", traceback=text)
    message = "".join(traceback.format_exception_only(type(error), error)).strip()
    places = [frame for frame in traceback.extract_tb(trace) if _is_of(project, frame.filename)]
    if places:
        message += f" ({places[-1].filename.removeprefix(project)}:{places[-1].lineno})"
    return Retry("exception", message, context=text[-_TRACE_MAX:])


def _is_of(project: str, file: str) -> bool:
    return file.startswith(project) and "/site-packages/" not in file and not file.startswith(_SDK)
