"""What a job, a result and a failure carry."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Optional, Union

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
#: Of a parameter that was not given, where None is a value.
ABSENT: Any = object()


@dataclass(frozen=True)
class Payload:
    """Bytes and the format that they are in; None means opaque bytes."""

    data: bytes
    content_type: Optional[str] = None

    def text(self) -> str:
        return self.data.decode()

    def json(self) -> Any:
        return json.loads(self.data)


@dataclass(frozen=True)
class Json:
    """Any value as JSON. A dict or a list needs no `Json` around it."""

    value: Any


@dataclass(frozen=True)
class Snooze:
    """Neither done nor failed: run the job again after `wait`, without using up an attempt."""

    wait: timedelta


Result = Union[None, str, bytes, dict, list, Json, Payload]


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
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return Payload(text.encode(), JSON)
    raise TypeError(f"{type(value).__name__} is no payload: give None, text, bytes, a dict, a list, or Json(value)")


def millis(duration: timedelta) -> int:
    return max(0, duration // timedelta(milliseconds=1))
