#!/usr/bin/env python3
"""Installs each package of a release into an empty place, does a job with it, and says how long that took.

    packaging/check.py FOLDER [WAY...]    FOLDER has what scripts/release.sh made; ways: tarball shells deb systemd apt rpm image docker kubernetes wheel npm cargo

`shells` has bash, zsh and fish complete words with the files of the tarball; `kubernetes` reads what kubectl makes of the kustomizations. The formula is for Homebrew, which is not here.
Debian's roots are made by mmdebstrap and entered by bubblewrap, which for `image` also stands in for a container's runtime: both need root here. In place of systemd the unit's ExecStart=
is run. Where a Docker daemon answers, `docker` runs the image in it, and `systemd` the service in a Debian that systemd has booted.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import textwrap
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


def tarball(release: pathlib.Path, folder: pathlib.Path) -> None:
    package = unpacked(release, folder)
    do_a_job([package / "gristmill"], "gristmill.toml", **place(folder, package / "handlers"))


# How each shell is started without settings of its own, what it reads, and what it says then.
SHELLS = {
    "bash": ("bash --norc --noprofile -i", "source {}/gristmill; bind 'set enable-bracketed-paste off'; echo read$((1))\r"),
    "zsh": ("zsh -f -i", "fpath=({} $fpath); autoload -U compinit; compinit -u -D; echo read$((1))\r"),
    "fish": ("fish --no-config -i", "source {}/gristmill.fish; echo read(math 1)\r"),
}
# What is written before the tab key is pressed: a command, an option, and what only the server knows.
COMPLETED = {
    "gristmill pus": "gristmill push",
    "gristmill push --cont": "gristmill push --content-type",
    "gristmill push lat": "gristmill push later",
    "gristmill push --tenant ac": "gristmill push --tenant acme",
    "gristmill job show let": "gristmill job show letter-1",
}


def pressed(shell: str, completions: pathlib.Path, line: str, options: dict) -> str:
    """What a shell in a terminal makes of a line when the tab key is pressed after it."""
    words, read = SHELLS[shell]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(options["cwd"])
        os.execvpe(words.split()[0], words.split(), options["env"] | {"TERM": "dumb"})

    def answer(keys: str, pattern: str) -> str:
        os.write(terminal, keys.encode())
        shown, until = "", time.monotonic() + SOON
        while not (found := re.search(pattern, shown, re.MULTILINE)):
            if not select.select([terminal], [], [], until - time.monotonic())[0]:
                sys.exit(f"{shell} does not go on after {keys!r}:\n{shown}")
            shown += os.read(terminal, 1 << 16).decode(errors="replace")
        return found[1]

    answer(read.format(completions), "^(read1)")
    # Then the line is made the argument of a command that prints it.
    completed = answer(f"{line}\t\x01echo is: \r", r"^is: ([^\r\n]*)[\r\n]")
    os.close(terminal)
    os.waitpid(pid, 0)
    return completed


def shells(release: pathlib.Path, folder: pathlib.Path) -> None:
    package = unpacked(release, folder)
    options = place(folder, package / "handlers")
    options["env"]["PATH"] = f"{package}:{options['env']['PATH']}"
    with (options["cwd"] / "gristmill.toml").open("a") as manifest:
        manifest.write('[topics.later]\nhandler = "external"\n[tenants.acme.topics.mail]\nhandler = "external"\n')
    with serving(["gristmill"], "gristmill.toml", **options) as words:
        run(*words, "push", "later", "--id", "letter-1", "--data", JOB, **options)
        for shell in SHELLS:
            for line, whole in COMPLETED.items():
                completed = pressed(shell, package / "completions", line, options)
                assert completed.strip() == whole, f"{shell} makes of {line!r}: {completed!r}"


def debian(name: str, *packages: str) -> pathlib.Path:
    """An archive of Debian with nothing but what is essential and these packages. It is made once, and its time is not a package's."""
    kept = pathlib.Path(os.environ.get("GRISTMILL_CHECK_ROOTS", tempfile.gettempdir())) / f"gristmill-check-{name}.tar"
    if not kept.exists():
        run("mmdebstrap", "--variant=apt", *(f"--include={package}" for package in packages), "bookworm", kept)
    return kept


def root(folder: pathlib.Path) -> pathlib.Path:
    run("tar", "-xf", debian("root"), "-C", folder)
    return folder


def service(root: pathlib.Path) -> None:
    """What the unit of an installed package starts, in that root, with the manifest that came along."""
    unit = (root / "usr/lib/systemd/system/gristmill.service").read_text()
    program = re.search(r"ExecStart=(\S+)", unit)[1]
    for name in ["var/lib/gristmill/handlers", "var/cache/gristmill", "tmp", "dev", "proc"]:
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copy(root / "usr/share/gristmill/handlers/echo.wasm", root / "var/lib/gristmill/handlers")
    sandbox = ["bwrap", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-pid", "--as-pid-1", "--clearenv", "--setenv", "CACHE_DIRECTORY", "/var/cache/gristmill"]
    do_a_job([program], "/etc/gristmill/gristmill.toml", [*map(str, sandbox)])


def timed_in_root(folder: pathlib.Path, install) -> float:
    base = root(folder)
    begun = time.monotonic()
    install(base)
    assert "gristmill:" in (base / "etc/passwd").read_text(), "there is no user"
    service(base)
    return time.monotonic() - begun


def deb(release: pathlib.Path, folder: pathlib.Path) -> float:
    def install(base: pathlib.Path) -> None:
        shutil.copy(one(release, "*.deb"), base / "package.deb")
        run("chroot", base, "dpkg", "-i", "/package.deb")

    took = timed_in_root(folder, install)
    # An upgrade leaves the operator's settings, and what was purged leaves the jobs.
    manifest = folder / "etc/gristmill/gristmill.toml"
    manifest.write_text(manifest.read_text() + "\n# ours\n")
    run("chroot", folder, "dpkg", "-i", "/package.deb")
    assert "# ours" in manifest.read_text()
    run("chroot", folder, "dpkg", "--purge", "gristmill")
    assert not manifest.exists() and (folder / "var/lib/gristmill/gristmill.db").exists()
    return took


def apt(release: pathlib.Path, folder: pathlib.Path) -> float:
    def install(base: pathlib.Path) -> None:
        (base / "repository").mkdir()
        run("tar", "-xzf", release / "gristmill-apt.tar.gz", "-C", base / "repository")
        is_signed = (base / "repository/gristmill.asc").exists()
        trust = "signed-by=/repository/gristmill.asc" if is_signed else "trusted=yes"
        (base / "etc/apt/sources.list").write_text(f"deb [{trust}] file:/repository stable main\n")
        run("chroot", base, "apt-get", "-qq", "update")
        run("chroot", base, "apt-get", "-qq", "--yes", "--no-install-recommends", "install", "gristmill")

    return timed_in_root(folder, install)


def rpm(release: pathlib.Path, folder: pathlib.Path) -> float:
    def install(base: pathlib.Path) -> None:
        run("rpm", "--root", base, "--nodeps", "--ignoreos", "-i", one(release, "*.rpm"))
        run("chroot", base, "useradd", "--system", "gristmill")

    return timed_in_root(folder, install)


def image(release: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacked, and run as a container's runtime would: as process 1, as its own user, with nothing else in the root."""
    with tarfile.open(one(release, "*.oci.tar")) as layout:

        def blob(digest: str):
            return layout.extractfile("blobs/sha256/" + digest.removeprefix("sha256:"))

        manifest = json.load(blob(json.load(layout.extractfile("index.json"))["manifests"][0]["digest"]))
        config = json.load(blob(manifest["config"]["digest"]))["config"]
        with tarfile.open(fileobj=blob(manifest["layers"][0]["digest"])) as layer:
            for member in layer:
                # They become the user's by the namespace.
                member.uid = member.gid = os.getuid()
                layer.extract(member, folder)
    assert not list(folder.rglob("sh")), "there is a shell"
    user = config["User"].split(":")[0]
    for name in ["dev", "proc"]:
        (folder / name).mkdir()
    handlers = folder / "var/lib/gristmill/handlers"
    with tempfile.TemporaryDirectory() as other:
        shutil.copy(unpacked(release, pathlib.Path(other)) / "handlers/echo.wasm", handlers)
    sandbox = ["bwrap", "--bind", folder, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-user", "--uid", user, "--gid", user, "--unshare-pid", "--as-pid-1", "--clearenv"]
    for setting in config["Env"]:
        sandbox += ["--setenv", *setting.split("=", 1)]
    do_a_job(config["Entrypoint"], "/etc/gristmill/gristmill.toml", [*map(str, sandbox)])


@contextlib.contextmanager
def container(*words: str):
    """A container in the background, and how commands get into it; gone at the end, with its volumes."""
    name = run("docker", "run", "--detach", "--network", "none", *words).strip()
    try:
        yield name, ["docker", "exec", name]
    finally:
        run("docker", "rm", "--force", "--volumes", name)


def docker(release: pathlib.Path, folder: pathlib.Path) -> None:
    with one(release, "*.oci.tar").open() as archive:
        image = run("docker", "load", stdin=archive).removeprefix("Loaded image: ").strip()
    assert image.startswith("gristmill:"), image
    handlers = unpacked(release, folder) / "handlers"
    with container("--volume", "/var/lib/gristmill", image) as (name, inside):
        run("docker", "cp", handlers / "echo.wasm", f"{name}:/var/lib/gristmill/handlers/")
        assert run(*inside, "gristmill", "push", "echo", "--data", JOB, "--wait").strip() == JOB
        run("docker", "stop", name)
        assert run("docker", "inspect", "--format", "{{.State.ExitCode}}", name).strip() == "0"


# What is run in a Debian that has booted, as docs/guides/installing.md says it. An upgrade restarts the service, and so does the watchdog; what is purged leaves the jobs.
BOOTED = """
set -e
apt-get -qq install --yes --no-install-recommends /gristmill.deb
systemctl enable --now gristmill
install -m 644 /usr/share/gristmill/handlers/echo.wasm /var/lib/gristmill/handlers/
gristmill --manifest /etc/gristmill/gristmill.toml push echo --data "$0" --wait >/said
before=$(systemctl show --value -p MainPID gristmill)
dpkg -i /gristmill.deb
upgraded=$(systemctl show --value -p MainPID gristmill)
test "$upgraded" != "$before"
kill -STOP "$upgraded"
timeout 90 journalctl -f -u gristmill | grep -m 1 "Watchdog timeout"
timeout 60 journalctl -f -n all -u gristmill | grep -m 3 "ready for jobs"
systemctl stop gristmill
test "$(systemctl show --value -p Result gristmill)" = success
apt-get -qq purge --yes gristmill
test ! -e /etc/gristmill && test -e /var/lib/gristmill/gristmill.db
"""


def systemd(release: pathlib.Path, _: pathlib.Path) -> None:
    image = run("docker", "import", debian("systemd", "systemd", "systemd-sysv", "dbus")).strip()
    rights = ["--cap-add=SYS_ADMIN", "--security-opt=seccomp=unconfined", "--security-opt=apparmor=unconfined", "--volume=/sys/fs/cgroup:/sys/fs/cgroup"]
    with container(*rights, "--tmpfs=/run", "--tmpfs=/tmp", "--env=container=docker", image, "/sbin/init") as (name, inside):
        run("docker", "cp", one(release, "*.deb"), f"{name}:/gristmill.deb")
        subprocess.run([*inside, "systemctl", "is-system-running", "--wait"], stdout=subprocess.DEVNULL)
        run(*inside, "bash", "-c", BOOTED, JOB)
        assert run(*inside, "cat", "/said").strip() == JOB


def kubernetes(release: pathlib.Path, folder: pathlib.Path) -> None:
    """That each kustomization can be built, and that the binary takes the manifest in it."""
    package = unpacked(release, folder)
    run("tar", "-xzf", release / "gristmill-kubernetes.tar.gz", "-C", folder)
    for kustomization in (folder / "gristmill-kubernetes").iterdir():
        objects = run("kubectl", "kustomize", kustomization)
        assert "image: gristmill:" in objects, objects
        manifest = re.search(r"^  gristmill.toml: \|\n((?:    .*\n|\n)+)", objects, re.MULTILINE)[1]
        (folder / "gristmill.toml").write_text(textwrap.dedent(manifest))
        environment = {**os.environ, "GRISTMILL_STORE_URL": "redis://redis.example.org"}
        run(package / "gristmill", "check", "--manifest", folder / "gristmill.toml", env=environment)


def wheel(release: pathlib.Path, folder: pathlib.Path) -> None:
    run(sys.executable, "-m", "venv", folder / "venv")
    run(folder / "venv/bin/pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", one(release, "*.whl"))
    do_a_job([folder / "venv/bin/gristmill"], "gristmill.toml", **place(folder, unpacked(release, folder) / "handlers"))


def npm(release: pathlib.Path, folder: pathlib.Path) -> None:
    (folder / "package.json").write_text("{}")
    packages = [path for path in release.glob("gristmill-*.tgz")]
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", *packages, cwd=folder)
    do_a_job([folder / "node_modules/.bin/gristmill"], "gristmill.toml", **place(folder, unpacked(release, folder) / "handlers"))


def cargo(release: pathlib.Path, folder: pathlib.Path) -> None:
    """`cargo install gristmill --locked` from a registry that has our crates as they would be published, and those that they need. Not optimised: that would take long."""
    source, registry, home = pathlib.Path(__file__).parent.parent, folder / "registry", folder / "cargo"
    about = json.loads(run("cargo", "metadata", "--no-deps", "--locked", "--format-version", "1", cwd=source))
    ours = [package["name"] for package in about["packages"] if package["publish"] is None]
    chosen = [word for name in ours for word in ("-p", name)]
    run("cargo", "package", "--no-verify", "--locked", "--allow-dirty", "--target-dir", folder / "packages", *chosen, cwd=source)
    run("cargo", "vendor", "--locked", "--versioned-dirs", registry, cwd=source)
    for crate in (folder / "packages/package").glob("*.crate"):
        run("tar", "-xzf", crate, "-C", registry)
        sums = {"files": {}, "package": hashlib.sha256(crate.read_bytes()).hexdigest()}
        (registry / crate.stem / ".cargo-checksum.json").write_text(json.dumps(sums))
    home.mkdir()
    replaced = '[source.crates-io]\nreplace-with = "registry"\n'
    (home / "config.toml").write_text(f'{replaced}[source.registry]\ndirectory = "{registry}"\n[net]\noffline = true\n')
    environment = {**os.environ, "CARGO_HOME": str(home), "CARGO_TARGET_DIR": str(folder / "target")}
    run("cargo", "install", "gristmill", "--locked", "--debug", "--root", folder / "installed", cwd=folder, env=environment)
    do_a_job([folder / "installed/bin/gristmill"], "gristmill.toml", **place(folder, unpacked(release, folder) / "handlers"))


def missing(name: str) -> str:
    """What this machine lacks for a way that is not asked for by name."""
    if name in ("docker", "systemd") and (not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode):
        return "no Docker daemon answers"
    return "there is no kubectl" if name == "kubernetes" and not shutil.which("kubectl") else ""


def main() -> None:
    release = pathlib.Path(sys.argv[1]).resolve()
    ways = {way.__name__: way for way in [tarball, shells, deb, systemd, apt, rpm, image, docker, kubernetes, wheel, npm, cargo]}
    for name in sys.argv[2:] or ways:
        if not sys.argv[2:] and (lack := missing(name)):
            print(f"{name}: not tried: {lack}", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="gristmill-check-") as folder:
            begun = time.monotonic()
            took = ways[name](release, pathlib.Path(folder)) or time.monotonic() - begun
            print(f"{name}: passed after {took:.1f} s", flush=True)


if __name__ == "__main__":
    main()
