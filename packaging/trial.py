"""What every trial of a release needs: its packages, a place for a server, and a server that runs."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SOON = 60
JOB = "a job from the package"


def run(*command, **options) -> str:
    ended = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


@contextlib.contextmanager
def serving(program: list, manifest: str, inside: list = (), **options):
    """Starts the server, waits until it is ready, gives what commands begin with, and ends the server. `inside` is how commands get to where the server is."""
    words = [*inside, *program, "--manifest", manifest]
    log = tempfile.NamedTemporaryFile(mode="r+")
    info, told = os.pipe()
    # Which process to signal: a sandbox does not pass signals on.
    named = ["--die-with-parent", "--info-fd", str(told), *inside[1:]] if inside else []
    start = [*inside[:1], *named, *words[len(inside) :], "run"]
    server = subprocess.Popen(start, stdout=log, stderr=log, pass_fds=[told], **options)
    os.close(told)
    with os.fdopen(info) as words_of_sandbox:
        pid = json.load(words_of_sandbox)["child-pid"] if inside else server.pid
    try:
        until = time.monotonic() + SOON
        while subprocess.run([*words, "health", "--ready"], capture_output=True, **options).returncode:
            if server.poll() is not None or time.monotonic() > until:
                sys.exit("the server is not ready:\n" + pathlib.Path(log.name).read_text())
            time.sleep(0.05)
        yield words
        os.kill(pid, signal.SIGTERM)
        assert server.wait(SOON) == 0, pathlib.Path(log.name).read_text()
    finally:
        if server.poll() is None:
            server.kill()


def do_a_job(program: list, manifest: str, inside: list = (), **options) -> None:
    with serving(program, manifest, inside, **options) as words:
        said = run(*words, "push", "echo", "--data", JOB, "--wait", **options)
        assert said.strip() == JOB, said


def place(folder: pathlib.Path, handlers: pathlib.Path) -> dict:
    """A folder with a manifest and a handler, and the settings of a process in it."""
    work = folder / "work"
    work.mkdir()
    (work / "gristmill.toml").write_text('[http]\nlisten = "127.0.0.1:0"\n')
    shutil.copytree(handlers, work / "handlers", ignore=lambda _, names: set(names) - {"echo.wasm"})
    return {"cwd": work, "env": {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}}


def one(release: pathlib.Path, pattern: str) -> pathlib.Path:
    found = sorted(release.glob(pattern))
    if not found:
        sys.exit(f"there is no {pattern} in {release}")
    return found[-1]


def unpacked(release: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    archive = one(release, "gristmill-*-linux-*.tar.gz")
    run("tar", "-xzf", archive, "-C", folder)
    return folder / archive.name.removesuffix(".tar.gz")


def debian(name: str, *packages: str) -> pathlib.Path:
    """An archive of Debian with nothing but what is essential and these packages. It is made once, and its time is not a package's."""
    kept = pathlib.Path(os.environ.get("GRISTMILL_CHECK_ROOTS", tempfile.gettempdir())) / f"gristmill-check-{name}.tar"
    if not kept.exists():
        run("mmdebstrap", "--variant=apt", *(f"--include={package}" for package in packages), "bookworm", kept)
    return kept
