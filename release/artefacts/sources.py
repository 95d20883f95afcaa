"""Wheel and sdist, the same bytes from the same commit: built from what git has, with the commit's time.

setuptools writes ``SOURCE_DATE_EPOCH`` into wheels. It does not into sdists, so those are written again, with sorted
names and no owner.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

PATIENCE = 600.0


def checkout(project: Path, commit: str, folder: Path) -> None:
    """The files of a commit in ``folder``, with modes that do not depend on the umask. Raises CalledProcessError."""
    command = ["git", "archive", "--format", "tar", commit]
    done = subprocess.run(command, cwd=project, capture_output=True, check=True, timeout=PATIENCE)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)


def build(project: Path, commit: str, epoch: int, destination: Path, python: Path) -> list[Path]:
    """Wheel and sdist of a commit in ``destination``. ``epoch``: its time, in seconds since 1970. ``python``: with
    the packages `build` and `setuptools`.

    Raises CalledProcessError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        source, built = Path(scratch) / "source", Path(scratch) / "built"
        source.mkdir()
        checkout(project, commit, source)
        subprocess.run(
            [str(python), "-m", "build", "--no-isolation", "--outdir", str(built), str(source)],
            env=_environment(epoch), check=True, capture_output=True, timeout=PATIENCE,
        )  # fmt: skip
        found = []
        for path in sorted(built.iterdir()):
            content = path.read_bytes()
            target = destination / path.name
            target.write_bytes(content if path.suffix == ".whl" else repacked(content, epoch))
            found.append(target)
        return found


def _environment(epoch: int) -> dict[str, str]:
    """Nothing of the caller's but what finds the programs."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}


def repacked(sdist: bytes, epoch: int) -> bytes:
    """The same files as an archive that depends on nothing else: names sorted, one time, no owner."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sdist), mode="r:gz") as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for one in sorted(old.getmembers(), key=lambda member: member.name):
            content = old.extractfile(one)
            one.mtime, one.uid, one.gid, one.uname, one.gname = epoch, 0, 0, "", ""
            one.mode, one.pax_headers = (0o755 if one.isdir() or one.mode & 0o100 else 0o644), {}
            new.addfile(one, content)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=epoch) as file:
        file.write(plain.getvalue())
    return packed.getvalue()
