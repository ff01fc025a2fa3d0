"""Archives whose bytes depend on nothing but what is in them and on SOURCE_DATE_EPOCH: sorted, owned by root, without times of their own."""

import gzip
import io
import os
import tarfile
import time
import zipfile

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))

# path -> (bytes, mode), or (link's target, None)
Files = dict


# 9 unless a test is in a hurry.
LEVEL = int(os.environ.get("GRISTMILL_COMPRESSION", "9"))


def compressed(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=LEVEL, mtime=0)


def tar(files: Files, folders: dict[str, tuple[int, int]] | None = None, prefix: str = "") -> bytes:
    """A tar of files and of the folders above them. `folders` have a mode and an owner of their own."""
    folders = folders or {}
    parents = {parent for path in [*files, *folders] for parent in above(path)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted({*files, *folders, *parents}):
            info = tarfile.TarInfo(prefix + path)
            info.mtime, info.uname, info.gname = EPOCH, "", ""
            data = None
            if path not in files:
                info.type = tarfile.DIRTYPE
                info.mode, info.uid = folders.get(path, (0o755, 0))
                info.gid = info.uid
            elif files[path][1] is None:
                info.type, info.linkname = tarfile.SYMTYPE, files[path][0]
            else:
                data, info.mode = files[path]
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


def above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def ar(members: list[tuple[str, bytes]]) -> bytes:
    """An `ar` archive, which is what a .deb is."""
    out = b"!<arch>\n"
    for name, data in members:
        out += f"{name:<16}{EPOCH:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += data + b"\n" * (len(data) % 2)
    return out


def zipped(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for path, (data, mode) in files.items():
            info = zipfile.ZipInfo(path, time.gmtime(EPOCH)[:6])
            info.external_attr, info.compress_type, info.create_system = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED, 3
            archive.writestr(info, data)
    return out.getvalue()
