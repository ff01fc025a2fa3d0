#!/usr/bin/env python3
"""Makes every package of one binary: the same bytes each time. `scripts/release.sh` calls it.

    packaging/pack.py --binary FILE --target TRIPLE --staged FOLDER --out FOLDER

`staged` has what was generated: man/, completions/, handlers/, gristmill.cdx.json, and about.json.
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tempfile

from archive import EPOCH, ar, compressed, tar, zipped

ROOT = pathlib.Path(__file__).parent.parent
HERE = ROOT / "packaging"
MAINTAINER = "The Gristmill authors <gristmill@users.noreply.github.com>"
SUMMARY = "A job runner whose handlers are WebAssembly components"
HOME = "https://github.com/gristmill/gristmill"
# Where each shell of a distribution looks.
SHELLS = {"gristmill": "bash-completion/completions/gristmill", "_gristmill": "zsh/vendor-completions/_gristmill", "gristmill.fish": "fish/vendor_completions.d/gristmill.fish"}
UNPRIVILEGED = 65532


def read(path: pathlib.Path, mode: int = 0o644) -> tuple[bytes, int]:
    return path.read_bytes(), mode


def shared(staged: pathlib.Path) -> dict:
    """What goes along with the binary in every archive, by its path below the package's own folder."""
    files = {name: read(ROOT / name) for name in ["README.md", "CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "llms.txt"]}
    files |= {f"share/{name}": read(ROOT / "docs/reference" / name) for name in ["openapi.json", "gristmill.schema.json", "handler.schema.json"]}
    files |= {f"share/{name}": read(HERE / name) for name in ["alerts.yaml", "dashboard.json"]}
    files["share/job.wit"] = read(ROOT / "wit/job.wit")
    files["share/gristmill.cdx.json"] = read(staged / "gristmill.cdx.json")
    files["LICENSES-OF-CRATES"] = read(staged / "licences.txt")
    for kind in ["man", "completions", "handlers"]:
        files |= {f"{kind}/{path.name}": read(path) for path in (staged / kind).iterdir()}
    if (staged / "gristmill.minisig").exists():
        files["gristmill.minisig"] = read(staged / "gristmill.minisig")
    return files


def system(binary: bytes, staged: pathlib.Path) -> dict:
    """The files of a distribution's package."""
    files = {"usr/bin/gristmill": (binary, 0o755), "etc/gristmill/gristmill.toml": read(HERE / "gristmill.toml")}
    files["usr/lib/systemd/system/gristmill.service"] = read(HERE / "gristmill.service")
    files["usr/lib/sysusers.d/gristmill.conf"] = read(HERE / "gristmill.sysusers")
    for path, (data, mode) in shared(staged).items():
        kind, _, name = path.rpartition("/")
        if kind == "man":
            files[f"usr/share/man/man1/{name}.gz"] = (compressed(data), mode)
        elif kind == "completions" and name in SHELLS:
            files[f"usr/share/{SHELLS[name]}"] = (data, mode)
        elif kind in ("share", "handlers", "completions", ""):
            folder = "usr/share/doc/gristmill" if kind == "" and name != "gristmill.minisig" else "usr/share/gristmill"
            files["/".join(filter(None, [folder, kind if kind != "share" else "", name]))] = (data, mode)
    return files


def glibc(binary: pathlib.Path) -> str | None:
    """The version of glibc that the binary needs; `None` if it is static."""
    symbols = subprocess.run(["objdump", "-T", binary], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    versions = [tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(2\.[0-9.]*[0-9])", symbols)]
    return ".".join(map(str, max(versions))) if versions else None


INSTALLED = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers gristmill.conf
    elif ! grep -q ^gristmill: /etc/passwd && command -v useradd >/dev/null; then
        useradd --system --home-dir /var/lib/gristmill --shell /usr/sbin/nologin gristmill
    fi
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        [ -z "$2" ] || systemctl try-restart gristmill.service
    fi
fi
"""
REMOVED = """#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now gristmill.service || true
fi
"""
# Jobs stay, in /var/lib/gristmill.
PURGED = """#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /var/cache/gristmill
fi
"""


def deb(files: dict, version: str, architecture: str, needs: str | None) -> bytes:
    size = sum(len(data) for data, _ in files.values()) // 1024
    depends = f"Depends: libc6 (>= {needs}), libgcc-s1\n" if needs else ""
    control = f"""Package: gristmill
Version: {version}
Architecture: {architecture}
Maintainer: {MAINTAINER}
Installed-Size: {size}
{depends}Recommends: ca-certificates
Section: utils
Priority: optional
Homepage: {HOME}
Description: {SUMMARY}
 Drop thumbnail.wasm into a folder, and the topic thumbnail has a handler.
 Jobs are in a SQLite file, or in Redis. The service is not started until
 it is asked for: systemctl enable --now gristmill
"""
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, (data, _) in sorted(files.items()) if not path.startswith("etc/"))
    about = {
        "control": (control.encode(), 0o644),
        "md5sums": (sums.encode(), 0o644),
        "conffiles": (b"/etc/gristmill/gristmill.toml\n", 0o644),
        "postinst": (INSTALLED.encode(), 0o755),
        "prerm": (REMOVED.encode(), 0o755),
        "postrm": (PURGED.encode(), 0o755),
    }
    # dpkg reads the folder itself first.
    members = [("debian-binary", b"2.0\n"), ("control.tar.gz", compressed(tar(about, prefix="./")))]
    return ar([*members, ("data.tar.gz", compressed(tar(files, prefix="./")))])


def apt(package: bytes, name: str, architecture: str) -> dict:
    """A repository of one package."""
    with tempfile.NamedTemporaryFile(suffix=".deb") as file:
        file.write(package)
        file.flush()
        control = subprocess.run(["dpkg-deb", "-f", file.name], stdout=subprocess.PIPE, check=True, text=True).stdout
    pool = f"pool/main/{name}"
    entry = f"{control}Filename: {pool}\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n\n".encode()
    folder = f"main/binary-{architecture}"
    lists = {f"{folder}/Packages": entry, f"{folder}/Packages.gz": compressed(entry)}
    sums = "".join(f" {hashlib.sha256(data).hexdigest()} {len(data)} {path}\n" for path, data in lists.items())
    date = subprocess.run(["date", "-Ru", f"-d@{EPOCH}"], stdout=subprocess.PIPE, check=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    release = f"Origin: Gristmill\nSuite: stable\nCodename: stable\nDate: {date}Architectures: {architecture}\nComponents: main\nSHA256:\n{sums}"
    files = {f"dists/stable/{path}": (data, 0o644) for path, data in lists.items()}
    return files | signed(release.encode()) | {pool: (package, 0o644), "dists/stable/Release": (release.encode(), 0o644)}


def signed(release: bytes) -> dict:
    """The signatures of a repository by the key of GnuPG that GRISTMILL_APT_KEY names, and what `signed-by` needs; nothing without a key."""
    key = os.environ.get("GRISTMILL_APT_KEY")
    if not key:
        return {}

    def gpg(*command: str) -> tuple[bytes, int]:
        # The time of the commit, so that the bytes are the same each time.
        words = ["gpg", "--batch", "--quiet", "--armor", "--local-user", key, "--faked-system-time", f"{EPOCH}!", *command]
        return subprocess.run(words, input=release, stdout=subprocess.PIPE, check=True).stdout, 0o644

    return {
        "dists/stable/InRelease": gpg("--clearsign"),
        "dists/stable/Release.gpg": gpg("--detach-sign"),
        "gristmill.asc": gpg("--export", key),
    }


def rpm(files: dict, version: str, architecture: str, out: pathlib.Path) -> None:
    """By `rpmbuild`: its format is not for us to write."""
    files = {path.replace("zsh/vendor-completions", "zsh/site-functions"): file for path, file in files.items()}
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        for path, (data, mode) in files.items():
            (top / "files" / path).parent.mkdir(parents=True, exist_ok=True)
            (top / "files" / path).write_bytes(data)
            (top / "files" / path).chmod(mode)
            os.utime(top / "files" / path, (EPOCH, EPOCH))
        listed = "\n".join(("%config(noreplace) " if path.startswith("etc/") else "") + f"/{path}" for path in sorted(files))
        (top / "gristmill.spec").write_text(f"""
%global __os_install_post %{{nil}}
%global debug_package %{{nil}}
%global _build_id_links none
Name: gristmill
Version: {version}
Release: 1
Summary: {SUMMARY}
License: MIT OR Apache-2.0
URL: {HOME}
AutoReqProv: no
%description
Drop thumbnail.wasm into a folder, and the topic thumbnail has a handler.
%install
cp -a {top}/files/. %{{buildroot}}/
%files
%defattr(-,root,root)
{listed}
%post
if command -v systemd-sysusers >/dev/null; then systemd-sysusers gristmill.conf; fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; [ "$1" = 1 ] || systemctl try-restart gristmill.service; fi
:
%preun
if [ "$1" = 0 ] && [ -d /run/systemd/system ]; then systemctl disable --now gristmill.service; fi
:
""")
        settings = {"_topdir": top / "rpm", "_rpmdir": top / "made", "_buildhost": "gristmill", "use_source_date_epoch_as_buildtime": 1,
                    "clamp_mtime_to_source_date_epoch": 1, "_binary_payload": "w6.gzdio", "_tmppath": top, "buildroot": top / "root"}
        defines = [word for name, value in settings.items() for word in ("--define", f"{name} {value}")]
        command = ["rpmbuild", "-bb", "--quiet", "--target", architecture, *defines, str(top / "gristmill.spec")]
        subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}, stderr=subprocess.DEVNULL)
        made = next((top / "made").rglob("*.rpm"))
        (out / f"gristmill-{version}-1.{architecture}.rpm").write_bytes(made.read_bytes())


def image(binary: bytes, path: pathlib.Path, version: str, commit: str, architecture: str) -> dict:
    """An OCI layout: one layer with the binary, and nothing that could be run beside it."""
    user = UNPRIVILEGED
    files = {
        "usr/bin/gristmill": (binary, 0o755),
        "etc/gristmill/gristmill.toml": read(HERE / "gristmill.toml"),
        "etc/passwd": (f"gristmill:x:{user}:{user}::/var/lib/gristmill:/sbin/nologin\n".encode(), 0o644),
        "etc/group": (f"gristmill:x:{user}:\n".encode(), 0o644),
    }
    authorities = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    if authorities.exists():
        files["etc/ssl/certs/ca-certificates.crt"] = read(authorities)
    # A static binary needs none.
    libraries = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for library in re.findall(r"(/\S+)", libraries):
        files[library.lstrip("/")] = read(pathlib.Path(library).resolve(), 0o755)
    own = {name: (0o700, user) for name in ["var/lib/gristmill", "var/lib/gristmill/handlers", "var/cache/gristmill"]}
    layer = tar(files, {**own, "tmp": (0o1777, 0)})
    packed = compressed(layer)

    def digest(data: bytes) -> str:
        return "sha256:" + hashlib.sha256(data).hexdigest()

    def blob(data: bytes) -> str:
        return digest(data).replace("sha256:", "blobs/sha256/")

    name = f"gristmill:{version}"
    created = subprocess.run(["date", "-u", f"-d@{EPOCH}", "+%Y-%m-%dT%H:%M:%SZ"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    labels = {"title": "gristmill", "description": SUMMARY, "version": version, "revision": commit, "source": HOME, "licenses": "MIT OR Apache-2.0"}
    labels = {f"org.opencontainers.image.{name}": value for name, value in labels.items()}
    second = 10**9
    config = {
        "created": created, "architecture": architecture, "os": "linux",
        "config": {
            "User": f"{user}:{user}",
            "Env": ["PATH=/usr/bin", "XDG_CACHE_HOME=/var/cache", "GRISTMILL_MANIFEST=/etc/gristmill/gristmill.toml"],
            "Entrypoint": ["/usr/bin/gristmill"], "Cmd": ["run", "--log-format", "json"],
            "WorkingDir": "/var/lib/gristmill", "ExposedPorts": {"7331/tcp": {}}, "StopSignal": "SIGTERM",
            "Volumes": {"/var/lib/gristmill": {}, "/var/cache/gristmill": {}}, "Labels": labels,
            "Healthcheck": {"Test": ["CMD", "/usr/bin/gristmill", "health"], "Interval": 30 * second, "Timeout": 5 * second, "StartPeriod": 10 * second, "Retries": 3},
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "scripts/release.sh"}],
    }  # fmt: skip
    kind = "application/vnd.oci.image"
    config = json.dumps(config).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": f"{kind}.manifest.v1+json",
        "config": {"mediaType": f"{kind}.config.v1+json", "digest": digest(config), "size": len(config)},
        "layers": [{"mediaType": f"{kind}.layer.v1.tar+gzip", "digest": digest(packed), "size": len(packed)}],
        "annotations": labels,
    }).encode()  # fmt: skip
    index = {
        "schemaVersion": 2, "mediaType": f"{kind}.index.v1+json",
        "manifests": [{"mediaType": f"{kind}.manifest.v1+json", "digest": digest(manifest), "size": len(manifest),
                       "platform": {"architecture": architecture, "os": "linux"},
                       "annotations": {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": f"docker.io/library/{name}"}}],
    }  # fmt: skip
    # What `docker load` reads.
    archive = [{"Config": blob(config), "RepoTags": [name], "Layers": [blob(packed)]}]
    documents = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": index, "manifest.json": archive}
    files = {name: (json.dumps(document).encode(), 0o644) for name, document in documents.items()}
    return files | {blob(data): (data, 0o644) for data in [packed, config, manifest]}


def wheel(binary: bytes, version: str, tag: str) -> dict:
    info = f"gristmill-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: gristmill\nVersion: {version}\nSummary: {SUMMARY}\nHome-page: {HOME}\nLicense: MIT OR Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
    files = {f"gristmill-{version}.data/scripts/gristmill": (binary, 0o755)}
    files |= {f"{info}/licenses/{name}": read(ROOT / name) for name in ["LICENSE-APACHE", "LICENSE-MIT"]}
    files[f"{info}/METADATA"] = (about.encode() + (ROOT / "README.md").read_bytes(), 0o644)
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{platform}\n" for platform in platforms.split("."))
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: gristmill\nRoot-Is-Purelib: false\n{tags}".encode(), 0o644)

    def row(path: str) -> str:
        data = files[path][0]
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        return f"{path},sha256={digest},{len(data)}\n"

    files[f"{info}/RECORD"] = ("".join(row(path) for path in files) + f"{info}/RECORD,,\n").encode(), 0o644
    return files


def npm(binary: bytes, version: str, cpu: str) -> dict[str, dict]:
    """The package that people name, and the one with the binary of this platform, which npm chooses."""
    licences = {name: read(ROOT / name) for name in ["LICENSE-APACHE", "LICENSE-MIT"]}
    common = {"version": version, "license": "MIT OR Apache-2.0", "repository": HOME}
    platform = {"name": f"@gristmill/linux-{cpu}", **common, "description": f"The binary of gristmill for Linux on {cpu}", "os": ["linux"], "cpu": [cpu]}
    main = {"name": "gristmill", **common, "description": SUMMARY, "bin": {"gristmill": "gristmill.js"}}
    main["optionalDependencies"] = {f"@gristmill/linux-{cpu}": version}

    def package(about: dict, files: dict) -> dict:
        files = {"package.json": (json.dumps(about, indent=2).encode(), 0o644), **licences, **files}
        return {f"package/{path}": file for path, file in files.items()}

    return {
        f"gristmill-linux-{cpu}-{version}.tgz": package(platform, {"bin/gristmill": (binary, 0o755)}),
        f"gristmill-{version}.tgz": package(main, {"README.md": read(ROOT / "README.md"), "gristmill.js": read(HERE / "npm/gristmill.js", 0o755)}),
    }


WAYS = "tarball deb apt rpm image wheel npm formula kubernetes sbom"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ["binary", "target", "staged", "out"]:
        parser.add_argument(f"--{name}", required=True, type=str if name == "target" else pathlib.Path)
    parser.add_argument("--only", default=WAYS, help=f"some of: {WAYS}")
    args = parser.parse_args()
    ways = args.only.split()
    args.out.mkdir(parents=True, exist_ok=True)
    about = json.loads((args.staged / "about.json").read_text())
    version, commit = about["version"], about["commit"]
    machine = args.target.split("-")[0]
    debian, cpu = {"x86_64": ("amd64", "x64"), "aarch64": ("arm64", "arm64")}[machine]
    binary, needs = args.binary.read_bytes(), glibc(args.binary)

    def write(name: str, data: bytes) -> None:
        (args.out / name).write_bytes(data)

    name = f"gristmill-{version}-{args.target}"
    if "tarball" in ways:
        folder = shared(args.staged) | {"gristmill": (binary, 0o755)}
        folder |= {f"share/{file}": read(HERE / file) for file in ["gristmill.toml", "gristmill.service", "gristmill.sysusers"]}
        archive = compressed(tar(folder, prefix=f"{name}/"))
        write(f"{name}.tar.gz", archive)
        if "formula" in ways:
            formula = (HERE / "homebrew/gristmill.rb").read_text()
            values = {"VERSION": version, "TARGET": args.target, "SHA256": hashlib.sha256(archive).hexdigest()}
            write("gristmill.rb", re.sub("@([A-Z0-9]+)@", lambda key: values[key[1]], formula).encode())
    if "deb" in ways or "apt" in ways:
        package = f"gristmill_{version}_{debian}.deb"
        data = deb(system(binary, args.staged), version, debian, needs)
        write(package, data)
        if "apt" in ways:
            write("gristmill-apt.tar.gz", compressed(tar(apt(data, package, debian))))
    if "rpm" in ways:
        rpm(system(binary, args.staged), version, machine, args.out)
    if "image" in ways:
        write(f"{name}.oci.tar", tar(image(binary, args.binary, version, commit, debian)))
    if "wheel" in ways:
        tag = f"manylinux_{needs.replace('.', '_')}_{machine}" if needs else f"manylinux_2_17_{machine}.musllinux_1_1_{machine}"
        write(f"gristmill-{version}-py3-none-{tag}.whl", zipped(wheel(binary, version, f"py3-none-{tag}")))
    if "npm" in ways:
        for file, content in npm(binary, version, cpu).items():
            write(file, compressed(tar(content)))
    if "kubernetes" in ways:
        files = {path: path.read_bytes().replace(b"@VERSION@", version.encode()) for path in (HERE / "kubernetes").rglob("*.*")}
        files = {f"gristmill-kubernetes/{path.relative_to(HERE / 'kubernetes')}": (data, 0o644) for path, data in files.items()}
        write("gristmill-kubernetes.tar.gz", compressed(tar(files)))
    if "sbom" in ways:
        write(f"{name}.cdx.json", (args.staged / "gristmill.cdx.json").read_bytes())


if __name__ == "__main__":
    main()
