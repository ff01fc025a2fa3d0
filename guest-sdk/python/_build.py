"""How this package is built: by flit_core, but for an editable install. That is written here, so that a project is set up without fetching flit_core."""

import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile


def get_requires_for_build_wheel(settings: Any = None) -> list[str]:
    return ["flit_core >=3.11,<4"]  # 4 refuses gristmill_guest/job.wit, which links to a file outside of this folder


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(folder: str, settings: Any = None, metadata: Any = None) -> str:
    from flit_core import buildapi

    return buildapi.build_wheel(folder, settings, metadata)


def build_sdist(folder: str, settings: Any = None) -> str:
    from flit_core import buildapi

    return buildapi.build_sdist(folder, settings)


def build_editable(folder: str, settings: Any = None, metadata: Any = None) -> str:
    """A wheel that says where this folder is."""
    here = Path(__file__).resolve().parent
    version = re.search(r'^version = "(.+)"', (here / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    info = f"gristmill_guest-{version}.dist-info"
    files = {
        "gristmill_guest.pth": f"{here}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: gristmill-guest\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: gristmill-guest\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    name = f"gristmill_guest-{version}-py3-none-any.whl"
    with ZipFile(f"{folder}/{name}", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))
    return name
