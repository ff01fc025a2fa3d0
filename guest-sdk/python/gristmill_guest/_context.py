"""The job's log, its settings, and what the runner knows of the attempt."""

from __future__ import annotations

import json
from typing import Any, Optional, overload

from . import _host
from ._failure import checkpoint_failed


class Log:
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
        return _host.current.enabled(level)

    def _emit(self, level: str, message: str, fields: dict[str, Any]) -> None:
        _host.current.emit(level, message, [(name, _field(value)) for name, value in fields.items()])


def _field(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class Config:
    """What the manifest grants this topic."""

    @overload
    def get(self, name: str) -> Optional[str]: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: Optional[str] = None) -> Optional[str]:
        """A setting; `default` if it is missing or not granted."""
        value = _host.current.get(name)
        return default if value is None else value

    def secret(self, name: str) -> Optional[bytes]:
        """A secret; None if it is missing or not granted."""
        return _host.current.secret(name)


log = Log()
config = Config()


def now() -> int:
    """Milliseconds since the Unix epoch, by the store's clock."""
    return _host.current.now()


def fuel_remaining() -> int:
    """Fuel left for this attempt."""
    return _host.current.fuel_remaining()


def is_cancelled() -> bool:
    """True once the job was cancelled or the runner is ending: a long handler should ask, and stop."""
    return _host.current.is_cancelled()


def checkpoint(state: bytes) -> None:
    """Saves durably where this job is; the next attempt finds it in `job.checkpoint`. Raises `CheckpointTooLarge` and
    `CheckpointUnavailable`."""
    _host.current.checkpoint(state, checkpoint_failed)


def progress(done: float, note: Optional[str] = None) -> None:
    """For people who watch: how much is done, from 0 to 1, and a short note."""
    _host.current.progress(round(min(max(done, 0.0), 1.0) * 10_000), note)
