"""``python -m release.image.root BASE VENV ROOT``: copies into ROOT what of a base image the programs of a VENV need.

These are the interpreter, its standard library, the C libraries of both, certificates, and the files of ``/etc`` that
name users and resolvers. There is no shell and no package manager. Debian's records of the packages which the files
belong to are copied too, so that scanners know their versions.

Run while an image is built. BASE is the folder where the base image is mounted: Debian or a system made from it, maybe
of another architecture. Nothing in it is run; its interpreter has the version and the place of the running one.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from release.image.bytecode import compiled, without_sources
from release.image.elf import interpreter_and_needed

STANDARD_LIBRARY_WITHOUT = (
    *(
        "config-*",
        "dist-packages",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
    ),
    *("test", "tests", "tkinter", "turtledemo", "__pycache__", "_tkinter*.so"),
    *("curses", "_curses*.so", "readline*.so"),
    *("dbm", "_dbm*.so", "_gdbm*.so", "sqlite3", "_sqlite3*.so"),
    *("_ctypes_test*.so", "_test*.so", "_xxtestfuzz*.so", "xxlimited*.so"),
)
"""Folders and files that no program in an image imports: for terminals, for databases, for Python's own tests. Some
bring large libraries with them."""
SYSTEM = (
    *("bin", "lib", "lib64", "sbin"),  # Links into usr.
    *("etc/debian_version", "etc/os-release", "usr/lib/os-release", "etc/nsswitch.conf"),
    *(
        "etc/group",
        "etc/passwd",
        "etc/host.conf",
        "etc/ld.so.cache",
        "etc/services",
        "etc/protocols",
    ),
    *("etc/ssl/certs", "etc/ssl/openssl.cnf", "usr/lib/ssl", "usr/share/ca-certificates"),
)
"""Copied where they exist. ``usr/lib/ssl`` is where OpenSSL looks for certificates."""
OPENED_AT_RUN_TIME = ("libgcc_s.so.1", "libstdc++.so.6", "libnss_dns.so.2", "libnss_files.so.2")
"""Libraries that the C library opens by name, or that no file names as needed on every architecture."""
LIBRARY_FOLDERS = ("usr/local/lib", "usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib", "lib")


def library(base: Path, name: str) -> Path | None:
    """The C library of this name in the base; None where it has none."""
    folders = (folder for pattern in LIBRARY_FOLDERS for folder in sorted(base.glob(pattern)))
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def libraries(base: Path, programs: Iterable[Path], own: set[str]) -> set[Path]:
    """What the programs and their libraries need of the base. ``own``: names of libraries that packages bring.

    Raises ValueError that names a library which is missing.
    """
    waiting, found = list(programs), set[Path]()
    while waiting:
        for name in interpreter_and_needed(waiting.pop()):
            path = base / name[1:] if name.startswith("/") else library(base, name)
            if path is None and name not in own:
                raise ValueError(f"the base image has no library {name}")
            if path is not None and path not in found:
                found.add(path)
                waiting.append([*with_links(base, path)][-1])
    return found


def with_links(base: Path, path: Path) -> Iterator[Path]:
    """The path, and the files in the base that its links lead to."""
    yield path
    while path.is_symlink():
        target = path.readlink()
        path = base / str(target)[1:] if target.is_absolute() else path.parent.resolve() / target
        yield path


def copy(base: Path, path: Path, root: Path) -> None:
    """One file, link or folder of the base, to the same place below ``root``. The folders above are the real ones."""
    real = path if path.parent == base else path.parent.resolve() / path.name
    target = root / real.relative_to(base)
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(path, target, follow_symlinks=False)


def owners(base: Path, paths: Iterable[Path]) -> set[str]:
    """The Debian packages of files of the base, which may be listed with or without ``/usr``."""
    files = (one for path in paths for one in with_links(base, path))
    wanted = {f"/{one.relative_to(base)}" for one in files if one.is_relative_to(base)}
    wanted |= {one.removeprefix("/usr") for one in wanted}
    lists = (base / "var/lib/dpkg/info").glob("*.list")
    return {one.stem.split(":")[0] for one in lists if wanted & {*one.read_text().splitlines()}}


def record(base: Path, packages: set[str], root: Path) -> None:
    """One file per package in ``var/lib/dpkg/status.d``, where scanners look in images without dpkg."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True, exist_ok=True)
    for paragraph in (base / "var/lib/dpkg/status").read_text().split("\n\n"):
        name = re.match(r"Package: (\S+)", paragraph)
        if name is not None and name[1] in packages:
            (folder / name[1]).write_text(f"{paragraph}\n")


def interpreter(base: Path, root: Path) -> Path:
    """Copies the interpreter under the names that a venv links to, and its standard library. Returns the program."""
    program = Path(sys.executable)
    names = {"python3", "python", program.name, program.resolve().name}
    for name in names:
        place = base / str(program.with_name(name))[1:]
        if place.exists() or place.is_symlink():
            for one in with_links(base, place):
                copy(base, one, root)
    standard = Path(sysconfig.get_path("stdlib")).relative_to("/")
    ignored = shutil.ignore_patterns(*STANDARD_LIBRARY_WITHOUT)
    shutil.copytree(
        base / standard, root / standard, symlinks=True, ignore=ignored, dirs_exist_ok=True
    )
    compiled(root / standard, shown_as=Path("/") / standard)
    without_sources(root / standard)
    return base / str(program.resolve())[1:]


def remove_unusable(base: Path, root: Path) -> None:
    """Remove modules of the standard library for which the base has no library: they cannot be imported there."""
    for path in list(root.rglob("lib-dynload/*.so")):
        if any(library(base, name) is None for name in interpreter_and_needed(path)):
            path.unlink()


def build(base: Path, venv: Path, root: Path) -> None:
    """Everything."""
    program = interpreter(base, root)
    remove_unusable(base, root)
    extensions = [*root.rglob("*.so*"), *venv.rglob("*.so*")]
    own = {path.name for path in venv.rglob("*.so*")}
    found = libraries(base, [program, *extensions], own)
    found |= {path for name in OPENED_AT_RUN_TIME if (path := library(base, name)) is not None}
    for path in sorted(found):
        for one in with_links(base, path):
            copy(base, one, root)
    for name in SYSTEM:
        if (base / name).exists() or (base / name).is_symlink():
            copy(base, base / name, root)
    known = {base / "usr/share/ca-certificates/mozilla", base / "etc/debian_version", program}
    record(base, owners(base, found | known), root)
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    build(*map(Path, sys.argv[1:4]))
