"""What the component is made of: `handler.py`, after what CPython lacks in a component. Nothing else imports this."""

import gristmill_web  # first, for the packages that the handler imports

from handler import Handler  # noqa: F401 (the component's builder looks for it here)

gristmill_web.replace_sockets()
