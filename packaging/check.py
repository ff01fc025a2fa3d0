#!/usr/bin/env python3
"""Tries each package of a release in an empty place, to a job done, and says how long that took.

    packaging/check.py FOLDER [WAY...]    FOLDER has what scripts/release.sh made

The ways are tarball, deb, apt, rpm, image, wheel, npm and cargo, and those of surroundings.py: in `shells`, bash, zsh and fish complete words; in `symbols`, gdb reads a backtrace; in
`monitoring`, Prometheus evaluates the alerts and the queries of the dashboard; `docker` runs the image, `systemd` the service in a Debian that has booted in Docker; `kubernetes` builds the
kustomizations. Without a WAY all are tried but those for which something is not here. The formula is for Homebrew, which is not here. Debian's roots are made by mmdebstrap and entered by
bubblewrap, which for `image` also stands in for a container's runtime: both need root here. In place of systemd `deb`, `apt` and `rpm` run the unit's ExecStart=.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile
import time

from surroundings import docker, kubernetes, missing, monitoring, shells, symbols, systemd
from trial import debian, do_a_job, one, place, run, unpacked


def tarball(release: pathlib.Path, folder: pathlib.Path) -> None:
    package = unpacked(release, folder)
    do_a_job([package / "gristmill"], "gristmill.toml", **place(folder, package / "handlers"))


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
        for_docker = json.load(layout.extractfile("manifest.json"))[0]
        assert for_docker["RepoTags"][0].startswith("gristmill:") and for_docker["Config"].endswith(manifest["config"]["digest"].removeprefix("sha256:")), for_docker
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


def main() -> None:
    release = pathlib.Path(sys.argv[1]).resolve()
    ways = {way.__name__: way for way in [tarball, shells, symbols, monitoring, deb, systemd, apt, rpm, image, docker, kubernetes, wheel, npm, cargo]}
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
