"""What the build asks before it makes a component, on plain CPython: whether there is a handler, and for which world it is.

    python -m gristmill_guest.check handler [FOLDER]
"""

from __future__ import annotations

import ast
import sys
import traceback
from dataclasses import dataclass, field
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import resolve_name
from typing import Any, Callable, Iterator, Optional


class NativeCode(ModuleNotFoundError):
    """A module that is compiled for this machine: a component does not find it."""


class _ComponentFinder:
    """Finds no module that a component would not find, but for those of CPython itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        spec = PathFinder.find_spec(name, path, target)
        is_native = spec is not None and isinstance(spec.loader, ExtensionFileLoader)
        if is_native and name.partition(".")[0] not in sys.stdlib_module_names:
            raise NativeCode(f"No module named {name!r}", name=name)


def check(name: str, folder: Optional[str] = None) -> None:
    """Ends the build of a module that cannot be a handler, with what CPython says of it. Prints the world to build it for.

    In the folder it leaves `gristmill_later.py`, which imports what functions of the handler and its packages do.
    """
    sys.meta_path.insert(0, _ComponentFinder())
    output, sys.stdout = sys.stdout, sys.stderr  # what the handler prints as it is imported is not for the build
    try:
        module = __import__(name)
    except ModuleNotFoundError as missing:
        if missing.name in ("wit_world", "componentize_py_types"):
            print("job-handler", file=output)  # only a component has these
            return
        fail(missing)
    except BaseException as error:
        fail(error)
    else:
        exported_by(module, name)
        known: dict[str, _Imports] = {}
        later = _import_later(known)
        if folder:
            lines = [f"try:\n    import {name}\nexcept BaseException:\n    pass\n" for name in later]
            with open(f"{folder}/gristmill_later.py", "w") as file:
                file.write("".join(lines))
        print(_world(known), file=output)


_SDK = "gristmill_guest"
#: A module that imports one of these sends requests.
_HTTP_LIBRARIES = {"http.client", "urllib.request", "urllib3", "requests"}


@dataclass
class _Imports:
    """What a module imports: as it is loaded, and inside of functions."""

    is_own: bool
    #: What it calls this package.
    sdk: set[str] = field(default_factory=set)
    at_once: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)

    def add(self, tree: ast.AST, package: str, in_function: bool = False) -> None:
        for node in ast.iter_child_nodes(tree):
            names = self.later if in_function else self.at_once
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
                self.sdk.update(alias.asname or alias.name for alias in node.names if alias.name == _SDK)
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                source = resolve_name(source, package) if node.level and package else source
                names.update([source, *(f"{source}.{alias.name}" for alias in node.names)])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.sdk:
                self.at_once.add(f"{_SDK}.{node.attr}")
            self.add(node, package, in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))


def _imports(known: dict[str, _Imports]) -> dict[str, _Imports]:
    """Of all modules that were imported but CPython's own and those of this package."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        top = name.partition(".")[0]
        if name in known or not file.endswith(".py") or top in sys.stdlib_module_names or top in (_SDK, "__main__"):
            continue
        known[name] = _Imports("/site-packages/" not in file)
        with open(file, "rb") as source:
            known[name].add(ast.parse(source.read()), module.__package__ or "")
    return known


def _import_later(known: dict[str, _Imports]) -> list[str]:
    """Imports what modules import inside of functions: a component has only what its build imported. Returns what could be."""
    tried: set[str] = set()
    found = []
    while True:
        names = {name for imports in _imports(known).values() for name in imports.later if imports.is_own or not _is_of_cpython(name)}
        if not names - tried:
            return found
        for name in sorted(names - tried):
            tried.add(name)
            try:
                __import__(name)
            except BaseException:  # it is no module, or not there: the function that imports it gets the error
                continue
            found.append(name)


def _is_of_cpython(name: str) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names


def _world(known: dict[str, _Imports]) -> str:
    """The contract's world that has what the handler and its packages import. A topic must grant what is in it, so it has no more."""
    names = set().union(*(imports.at_once | (imports.later if imports.is_own else set()) for imports in known.values()))
    wants = {name for name in ("http", "state") if f"{_SDK}.{name}" in names}
    if any(name in _HTTP_LIBRARIES or name.partition(".")[0] in _HTTP_LIBRARIES for name in names):
        wants.add("http")
    return "job-handler" + {0: "", 1: f"-{''.join(wants)}", 2: "-all"}[len(wants)]


def exported_by(module: Any, name: str) -> Callable[[Any], Any]:
    if not hasattr(module, "Handler"):
        sys.exit(f"{name}.py has no handler: write @handler above the function that does the jobs")
    return module.Handler


def fail(error: BaseException) -> None:
    trace = error.__traceback__ and error.__traceback__.tb_next  # without this file's own line
    traceback.print_exception(type(error), error, trace)
    native = next((cause for cause in _causes(error) if isinstance(cause, NativeCode)), None)
    if native is not None:
        sys.exit(
            f"error: the package `{_package_of(native.name)}` needs `{native.name}`, which is compiled for this machine, and a component cannot "
            "load it: use a package of pure Python, or do these jobs in a pull worker"
        )
    missing = error.name.partition(".")[0] if isinstance(error, ModuleNotFoundError) and error.name else ""
    if missing and missing not in sys.modules:
        sys.exit(f"error: there is no module `{missing}`: write the package that has it into requirements.txt")
    sys.exit(1)


def _causes(error: Optional[BaseException]) -> Iterator[BaseException]:
    """The error, and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _package_of(module: str) -> str:
    """The name by which requirements.txt asks for it."""
    from importlib.metadata import packages_distributions  # it takes long to import

    top = module.partition(".")[0]
    return packages_distributions().get(top, [top])[0]


if __name__ == "__main__":
    check(*sys.argv[1:])
