"""Requests over HTTP."""

from __future__ import annotations

import json as _json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Iterable, Mapping, Optional, Union

from . import _host
from ._failure import Retry, http_failure
from ._payload import ABSENT, Json, Payload, millis, payload


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


class Http:
    """Requests over HTTP, to the hosts that the manifest grants this topic."""

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Union[Mapping[str, str], Iterable[tuple[str, str]]] = (),
        body: Union[None, str, bytes, Payload] = None,
        json: Any = ABSENT,
        timeout: Optional[timedelta] = None,
        redirects: int = 0,
    ) -> Response:
        """Sends a request and waits for the whole answer, whatever its status.

        `json` is any value, instead of `body`. `timeout` is for all of it; None, or more than is granted: what is granted. It follows so many
        `redirects`, 20 at most; the next one is the answer. Raises `RequestRefused` and `NoAnswer`. A component that
        uses it runs only in topics that grant requests.
        """
        content = payload(body if json is ABSENT else Json(json))
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if content and content.content_type and not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("content-type", content.content_type))
        limit = None if timeout is None else millis(timeout)
        request = Request(method, url, pairs, content and content.data, limit, redirects)
        return Response(**_host.current.send(request, http_failure))


http = Http()
