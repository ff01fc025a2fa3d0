"""Trials of what surrounds a server: shells, Prometheus, Docker, systemd and Kubernetes."""

import contextlib
import gzip
import json
import os
import pathlib
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import textwrap
import time
import urllib.parse
import urllib.request

from trial import JOB, SOON, debian, one, place, run, serving, unpacked

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


def symbols(release: pathlib.Path, folder: pathlib.Path) -> None:
    """A backtrace of the binary has names and lines once its symbols are beside it."""
    package = unpacked(release, folder)
    program = package / "gristmill"
    (package / "gristmill.debug").write_bytes(gzip.decompress(one(release, "*.debug.gz").read_bytes()))
    with serving([program], "gristmill.toml", **place(folder, package / "handlers")):
        server = run("pgrep", "--oldest", "--full", f"^{program} ").strip()  # the one that compiles is younger
        trace = run("gdb", program, "-p", server, "-batch", "-ex", "thread apply all backtrace")
    assert re.search(r"\bmain \(\) at \S*runtime/src/\S+\.rs:[0-9]+", trace), trace


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "127.0.0.1:{}".format(free.getsockname()[1])


def asked(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=SOON) as answer:
        return json.load(answer)["data"]


def monitoring(release: pathlib.Path, folder: pathlib.Path) -> None:
    """Prometheus reads the metrics of a server that works; every alert can be evaluated, and every query of the dashboard has an answer."""
    package, server, address = unpacked(release, folder), free_address(), free_address()
    options = place(folder, package / "handlers")
    (options["cwd"] / "gristmill.toml").write_text(f'[http]\nlisten = "{server}"\n')
    shutil.copy(package / "handlers/resize-image.wasm", options["cwd"] / "handlers")
    dashboard = json.loads((package / "share/dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for name, value in {"$tenant": ".+", "$topic": ".+", "$__rate_interval": "10s"}.items():
        queries = [query.replace(name, value) for query in queries]
    run("promtool", "check", "rules", package / "share/alerts.yaml")
    with serving([package / "gristmill"], "gristmill.toml", **options) as words:
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(package / "share/alerts.yaml")]}
        config["scrape_configs"] = [{"job_name": "gristmill", "static_configs": [{"targets": [server]}]}]
        (folder / "prometheus.yml").write_text(json.dumps(config))  # which is YAML
        flags = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/prometheus", f"--web.listen-address={address}"]
        prometheus = subprocess.Popen(["prometheus", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + SOON
            while queries:
                assert time.monotonic() < until, f"no answer to {queries}"
                run(*words, "push", "echo", "--data", JOB, "--wait", **options)
                run(*words, "push", "resize-image", "--data", "no image", **options)
                with contextlib.suppress(OSError):
                    found = [query for query in queries if asked(f"http://{address}/api/v1/query?query={urllib.parse.quote(query)}")["result"]]
                    queries = [query for query in queries if query not in found]
            rules = asked(f"http://{address}/api/v1/rules")["groups"][0]["rules"]
            assert len(rules) > 5 and all(rule["health"] == "ok" for rule in rules), rules
        finally:
            prometheus.kill()
            prometheus.wait()


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
        loaded = run("docker", "load", stdin=archive)
    image = re.search("^Loaded image: (gristmill:.+)$", loaded, re.MULTILINE)[1]
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


def missing(name: str) -> str:
    """What this machine lacks for a way that is not asked for by name."""
    needed = {"systemd": "docker", "docker": "docker", "kubernetes": "kubectl", "monitoring": "prometheus", "symbols": "gdb"}.get(name, "")
    if needed and not shutil.which(needed):
        return f"there is no {needed}"
    is_dead = needed == "docker" and subprocess.run(["docker", "info"], capture_output=True).returncode
    return "no Docker daemon answers" if is_dead else ""
