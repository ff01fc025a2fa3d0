"""Requests over HTTP on plain CPython, for `gristmill_native`."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, Callable


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict:
    """Sends it to any host: no grant is looked at here."""
    try:
        asked = urllib.request.Request(request.url, request.body, method=request.method)
        for name, value in request.headers:
            # A name that is repeated: one header with all values means the same.
            before = asked.get_header(name.capitalize())
            asked.add_header(name, value if before is None else f"{before}, {value}")
    except ValueError as error:
        raise failed("HttpError_Invalid", str(error)) from None
    # A runner looks at no proxy either.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Redirects(request.redirects))
    try:
        with opener.open(asked, timeout=(request.timeout or 30_000) / 1000) as answer:
            return _answer(answer)
    except urllib.error.HTTPError as answer:
        return _answer(answer)
    except (OSError, HTTPException) as error:
        is_late = isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)
        raise failed("HttpError_Timeout" if is_late else "HttpError_Unreachable", str(error)) from None
    except ValueError as error:
        raise failed("HttpError_Invalid", str(error)) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows so many; the next one is the answer."""

    def __init__(self, left: int) -> None:
        self.left = left

    def redirect_request(self, *given: Any) -> Any:
        self.left -= 1
        return super().redirect_request(*given) if self.left >= 0 else None


def _answer(answer: Any) -> dict:
    headers = [(name.lower(), value) for name, value in answer.headers.items()]
    return {"status": answer.status, "headers": headers, "body": answer.read(), "url": answer.url}
