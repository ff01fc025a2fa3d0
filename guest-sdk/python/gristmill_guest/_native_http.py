"""Requests over HTTP on plain CPython, for `native`."""

from __future__ import annotations

import urllib.request
from http.client import HTTPException, InvalidURL
from typing import Any, Callable


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict:
    """Sends it to any host: no grant is looked at here."""
    try:
        asked = urllib.request.Request(request.url, request.body, method=request.method)
        if asked.type not in ("http", "https") or not asked.host:
            raise ValueError("the URL has to begin with http:// or https:// and a host")
        for name, value in request.headers:
            # A name that is repeated: one header with all values means the same.
            before = asked.get_header(name.capitalize())
            asked.add_header(name, value if before is None else f"{before}, {value}")
    except ValueError as error:
        raise failed("HttpError_Invalid", str(error)) from None
    try:
        with _opener(request.redirects).open(asked, timeout=(request.timeout or 30_000) / 1000) as answer:
            return _answer(answer)
    except (InvalidURL, ValueError) as error:
        raise failed("HttpError_Invalid", str(error)) from None
    except (OSError, HTTPException) as error:
        is_late = isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)
        raise failed("HttpError_Timeout" if is_late else "HttpError_Unreachable", str(error)) from None


def _opener(redirects: int) -> urllib.request.OpenerDirector:
    """Knows http and https, and no proxy, as a runner. Every status is an answer."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, _AsWritten):
        opener.add_handler(handler())
    opener.add_handler(_Redirects(redirects))
    return opener


class _AsWritten(urllib.request.BaseHandler):
    """Drops the content type of a form, which `urllib` gives a body without one; hands redirects to who follows them."""

    handler_order = 900

    def http_request(self, asked: urllib.request.Request) -> urllib.request.Request:
        asked.unredirected_hdrs.pop("Content-type", None)
        return asked

    def http_response(self, asked: urllib.request.Request, answer: Any) -> Any:
        if answer.status not in (301, 302, 303, 307, 308):
            return answer
        return self.parent.error("http", asked, answer, answer.status, answer.msg, answer.headers) or answer

    https_request, https_response = http_request, http_response


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows so many, by the rules of a component's requests; the next one is the answer."""

    def __init__(self, left: int) -> None:
        self.left = left

    def redirect_request(self, asked: Any, answer: Any, status: int, words: str, headers: Any, url: str) -> Any:
        self.left -= 1
        if self.left < 0:
            return None
        method = asked.get_method()
        keeps = status in (307, 308) or method == "HEAD" or status in (301, 302) and method != "POST"
        following = urllib.request.Request(url, asked.data if keeps else None, method=method if keeps else "GET")
        dropped = set() if keeps else {"content-type", "content-encoding", "content-language", "content-location"}
        if (following.type, following.host) != (asked.type, asked.host):
            dropped |= {"authorization", "cookie", "proxy-authorization"}
        for name, value in asked.headers.items():
            if name.lower() not in dropped:
                following.add_header(name, value)
        return following

    # Python 3.10 has none.
    http_error_308 = urllib.request.HTTPRedirectHandler.http_error_302


def _answer(answer: Any) -> dict:
    headers = [(name.lower(), value) for name, value in answer.headers.items()]
    return {"status": answer.status, "headers": headers, "body": answer.read(), "url": answer.url}
