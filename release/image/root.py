"""``python root.py VENV ROOT``: copies into the folder ROOT what of this machine the programs of a VENV need.

These are the interpreter, its standard library, the C libraries of both, certificates, and the files of ``/etc`` that
name users and resolvers. There is no shell and no package manager. Debian's records of the packages which the files
belong to are copied too, so that scanners know their versions.

Run while an image is built, by the interpreter that the image shall have; needs Debian or a system made from it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

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
)
"""Folders and files that no program in an image imports."""
SYSTEM = (
    *("/bin", "/lib", "/lib64", "/sbin"),  # Links into /usr.
    *("/etc/debian_version", "/etc/os-release", "/usr/lib/os-release", "/etc/nsswitch.conf"),
    *("/etc/group", "/etc/passwd", "/etc/host.conf", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/services", "/etc/protocols"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/usr/lib/ssl", "/usr/share/ca-certificates"),
)
"""Copied where they exist. ``/usr/lib/ssl`` is where OpenSSL looks for certificates."""
OPENED_AT_RUN_TIME = ("libgcc_s.so.1", "libstdc++.so.6", "libnss_dns.so.2", "libnss_files.so.2")
"""Libraries that no file names as needed everywhere, or that the C library opens by name."""
_LINKED = re.compile(r"(?:=> )?(/\S+) \(0x")


def libraries(programs: Iterable[Path]) -> set[Path]:
    """The C libraries that programs and extension modules are linked with, by the paths of the loader."""
    asked = [str(path) for path in programs]
    done = subprocess.run(["ldd", *asked], capture_output=True, text=True, timeout=120, check=False)
    # ldd fails as a whole when one file is statically linked; what a program lacks is seen when it starts.
    return {Path(one) for one in _LINKED.findall(done.stdout)}


def with_links(path: Path) -> Iterator[Path]:
    """The path, and the files that its links lead to."""
    yield path
    while path.is_symlink():
        path = path.parent.resolve() / path.readlink()
        yield path


def copy(path: Path, root: Path) -> None:
    """One file, link or folder, to the same place below ``root``. The folders above are the real ones."""
    place = path if path.parent == Path("/") else path.parent.resolve() / path.name
    target = root / place.relative_to("/")
    if target.exists() or target.is_symlink():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    else:
        shutil.copy2(path, target, follow_symlinks=False)


def owners(paths: Iterable[Path]) -> set[str]:
    """The Debian packages of files."""
    asked = {str(path) for path in paths} | {str(path.resolve()) for path in paths}
    command = ["dpkg-query", "--search", *sorted(asked)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = (line.rpartition(": ")[0] for line in done.stdout.splitlines() if ": " in line)
    return {name.split(":")[0] for names in found for name in names.split(", ")}


def record(packages: set[str], root: Path) -> None:
    """One file per package in ``var/lib/dpkg/status.d``, where scanners look in images without dpkg."""
    folder = root / "var/lib/dpkg/status.d"
    folder.mkdir(parents=True, exist_ok=True)
    for paragraph in Path("/var/lib/dpkg/status").read_text().split("\n\n"):
        name = re.match(r"Package: (\S+)", paragraph)
        if name is not None and name[1] in packages:
            (folder / name[1]).write_text(f"{paragraph}\n")


def interpreter(root: Path) -> None:
    """The interpreter under the names that a venv links to, and its standard library."""
    for name in ("python3", Path(sys.executable).name, Path(sys.executable).resolve().name):
        for one in with_links(Path(sys.executable).with_name(name)):
            copy(one, root)
    library = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns(*STANDARD_LIBRARY_WITHOUT)
    target = root / library.relative_to("/")
    shutil.copytree(library, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    # Bytecode that depends on no time stamp: an image is read-only and has no cache of its own.
    mode = ("--invalidation-mode", "unchecked-hash", "-s", str(root))
    command = [sys.executable, "-m", "compileall", "-q", *mode, str(target)]
    subprocess.run(command, check=True, timeout=600)


def build(venv: Path, root: Path) -> None:
    """Everything."""
    interpreter(root)
    standard = root / Path(sysconfig.get_path("stdlib")).relative_to("/")
    programs = [Path(sys.executable).resolve(), *standard.rglob("*.so*"), *venv.rglob("*.so*")]
    found = libraries(programs)
    (folder,) = {path.parent for path in found if path.name.startswith("libc.so")}
    found |= {folder / name for name in OPENED_AT_RUN_TIME if (folder / name).exists()}
    outside = {path for path in found if not path.is_relative_to(venv)}
    for path in sorted(outside):
        for one in with_links(path):
            copy(one, root)
    for path in map(Path, SYSTEM):
        if path.exists() or path.is_symlink():
            copy(path, root)
    record(owners(outside | {Path("/etc/ssl/certs"), Path("/etc/debian_version")}), root)
    subprocess.run(["ldconfig", "-r", str(root)], check=True, timeout=60)
    (root / "tmp").mkdir(mode=0o1777, exist_ok=True)
    (root / "tmp").chmod(0o1777)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
