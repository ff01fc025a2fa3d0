"""What there is to do."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Optional

from ._failure import Reject


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
            value = json.loads(text, parse_constant=_refuse_constant)
            if "\\ud" in text.lower():
                json.dumps(value, ensure_ascii=False).encode()  # fails for half a surrogate pair, which is no text
            return value
        except (ValueError, RecursionError) as error:
            raise Reject("bad-payload", f"the body is not JSON: {error}") from None

    def meta(self, name: str) -> Optional[str]:
        """The first header of this name."""
        return next((value for found, value in self.metadata if found == name), None)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")
