"""A fake runner for tests: `Host` grants, refuses and remembers. No WebAssembly and no server."""

from __future__ import annotations

import ast
import sys
import traceback
from dataclasses import dataclass, field
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import resolve_name
from typing import Any, Callable, Iterator, Optional

#: The fake clock stands still: 2026-01-01T00:00:00Z.
NOW = 1_767_225_600_000


@dataclass
class Host:
    """What the handler finds, and what it did. Settings and secrets are those given; every topic may be enqueued to.

        host = Host(config={"greylist": "example.net"})
        ending = host.run(welcome, {"email": "ada@example.org", "name": "Ada"})
    """

    config: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    now: int = NOW
    fuel: int = 1_000_000_000_000
    cancelled: bool = False
    #: Topics that may not be enqueued to.
    denied: frozenset[str] = frozenset()
    #: The state of the job's key: what it is before an attempt, and what a completed one left.
    state: Optional[bytes] = None
    #: The most bytes that a state may have.
    state_limit: int = 65_536
    #: What requests over HTTP are answered with, one after the other: a `Response`, or a `NoAnswer` to raise. Then none is granted.
    answers: list[Any] = field(default_factory=list)

    #: Requests over HTTP.
    requests: list[Any] = field(default_factory=list)
    enqueued: list[Any] = field(default_factory=list)
    #: (level, message, fields)
    logs: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    checkpoint: Optional[bytes] = None
    progress: list[tuple[int, Optional[str]]] = field(default_factory=list)
    _has_key: bool = field(default=False, init=False, repr=False)

    def run(self, function: Callable[..., Any], body: Any = b"", **job: Any) -> Any:
        """One attempt at a job: a `Payload`, a `Snooze`, None, or the `Retry` or `Reject` that ended it.

        `body` is bytes, text, or a dict or list for JSON; what else a job has is given by name, as in `attempt=2`.
        """
        import gristmill

        given = gristmill.payload(body) or gristmill.Payload(b"")
        job = {"id": "01K" + "0" * 23, "tenant": "default", "topic": "test", "content_type": given.content_type, **job}
        times = {"enqueued_at": self.now, "due_at": self.now, "deadline": self.now + 30_000}
        global _current
        before, _current = _current, self
        state_before, self._has_key = self.state, bool(job.get("key"))
        ending: Any = None
        try:
            ending = gristmill.attempt(function, gristmill.Job(body=given.data, **{**times, **job}))
            return ending
        finally:
            if isinstance(ending, (gristmill.Failure, gristmill.Snooze)):
                self.state = state_before
            _current = before


_current = Host()


def exported(attempt: Callable[[Any], Any]) -> Any:
    return attempt


def get(name: str) -> Optional[str]:
    return _current.config.get(name)


def secret(name: str) -> Optional[bytes]:
    return _current.secrets.get(name)


def now() -> int:
    return _current.now


def fuel_remaining() -> int:
    return _current.fuel


def is_cancelled() -> bool:
    return _current.cancelled


def progress(basis_points: int, note: Optional[str]) -> None:
    _current.progress.append((basis_points, note))


def emit(level: str, message: str, fields: list[tuple[str, str]]) -> None:
    _current.logs.append((level, message, dict(fields)))
    if level == "error":
        print(message, *(value for _, value in fields), sep="\n", file=sys.stderr)


def enabled(level: str) -> bool:
    return True


def checkpoint(state: bytes, failed: Callable[[bool, str], Exception]) -> None:
    _current.checkpoint = state


def enqueue(job: Any, failed: Callable[[bool, str], Exception]) -> str:
    if job.topic in _current.denied:
        raise failed(False, f"this topic may not enqueue to `{job.topic}`; name it in the manifest's `enqueue` grant")
    _current.enqueued.append(job)
    return f"01K1{len(_current.enqueued):022}"


def get_state(refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]) -> Optional[bytes]:
    _check_key(refused)
    return _current.state


def set_state(
    value: Optional[bytes], refused: Callable[[str, str], Exception], unavailable: Callable[[str], Exception]
) -> None:
    _check_key(refused)
    if value is not None and len(value) > _current.state_limit:
        raise refused("state-too-large", f"the state is larger than {_current.state_limit} bytes")
    _current.state = value


def _check_key(refused: Callable[[str, str], Exception]) -> None:
    if not _current._has_key:
        raise refused("no-key", "the job has no key, so it has no state: push it with one")


def send(request: Any, failed: Callable[[str, Any], Exception]) -> dict[str, Any]:
    _current.requests.append(request)
    if not _current.answers:
        raise failed("HttpError_Denied", f"{request.url}: the fake has no answer, give it one with Host(answers=[…])")
    answer = _current.answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return vars(answer)


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


#: A module that imports one of these sends requests.
_HTTP_LIBRARIES = {"http.client", "urllib.request", "urllib3", "requests"}


@dataclass
class _Imports:
    """What a module imports: as it is loaded, and inside of functions."""

    is_own: bool
    at_once: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)

    def add(self, tree: ast.AST, package: str, in_function: bool = False) -> None:
        for node in ast.iter_child_nodes(tree):
            names = self.later if in_function else self.at_once
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                source = resolve_name(source, package) if node.level and package else source
                names.update([source, *(f"{source}.{alias.name}" for alias in node.names)])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "gristmill":
                self.at_once.add(f"gristmill.{node.attr}")
            self.add(node, package, in_function or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))


def _imports(known: dict[str, _Imports]) -> dict[str, _Imports]:
    """Of all modules that were imported but CPython's own and those of `gristmill`."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        top = name.partition(".")[0]
        if name in known or not file.endswith(".py") or top in sys.stdlib_module_names or top.startswith(("gristmill", "__main__")):
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
    wants = {name for name in ("http", "state") if f"gristmill.{name}" in names}
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
