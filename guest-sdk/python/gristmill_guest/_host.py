"""Which runner the SDK's calls go to: in a component the one that runs it, anywhere else a fake, until another is put in its place."""

from __future__ import annotations

from typing import Any

current: Any
try:
    from . import _component_host as current
except ModuleNotFoundError as missing:
    if missing.name != "componentize_py_types":
        raise
    from . import testing as current
