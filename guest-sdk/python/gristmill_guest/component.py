"""What the component is made of: `handler.py`, after what CPython lacks in a component. Nothing else imports this."""

from . import _sockets  # first, for the packages that the handler imports

from handler import Handler  # noqa: F401 (the component's builder looks for it here)

try:
    import gristmill_later  # noqa: F401 (made by the build: nothing can be imported later)
except ModuleNotFoundError:
    pass
_sockets.replace_sockets()
