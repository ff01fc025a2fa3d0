"""The state of a key."""

from __future__ import annotations

import json as _json
from typing import Any, Optional

from . import _host
from ._failure import Reject, StateRefused, StateUnavailable


class State:
    """What the jobs of a key leave for each other, in a topic with `state = true`. Of the jobs of a key one runs at a time.

    What is set is stored in the step that completes this job, or not at all; the last call counts. Raises `StateRefused` and
    `StateUnavailable`.
    """

    def get(self) -> Optional[bytes]:
        """The state; None if there is none. After `set`, what that said."""
        return _host.current.get_state(StateRefused, StateUnavailable)

    def set(self, value: Optional[bytes]) -> None:
        """Has the state be these bytes; None deletes it."""
        _host.current.set_state(value, StateRefused, StateUnavailable)

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


state = State()
