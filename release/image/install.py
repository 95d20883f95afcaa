"""``python -m release.image.install VENV ARCHITECTURE LOCK...``: installs locks, maybe for another architecture.

ARCHITECTURE is named as Docker does it. Only wheels are installed, so nothing is compiled. The running interpreter and
its C library must be of the version that the image has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Docker's name of an architecture -> its name in the tags of wheels."""
_OLDEST, _OLD_NAMES = 5, ("manylinux1", "manylinux2010", "manylinux2014")


def tags(architecture: str, libc_minor: int) -> list[str]:
    """The tags of wheels that run on an architecture with glibc 2.``libc_minor``. Raises ValueError."""
    if architecture not in MACHINES:
        raise ValueError(f"no image for {architecture}: only for {', '.join(MACHINES)}")
    machine = MACHINES[architecture]
    newer = [f"manylinux_2_{minor}_{machine}" for minor in range(libc_minor, _OLDEST - 1, -1)]
    return [*newer, *(f"{name}_{machine}" for name in _OLD_NAMES), f"linux_{machine}"]


def main(venv: Path, architecture: str, locks: Sequence[str]) -> None:
    """Raises CalledProcessError."""
    (site,) = venv.glob("lib/python*/site-packages")
    libc_minor = int(str(os.confstr("CS_GNU_LIBC_VERSION")).rpartition(".")[2])
    words = [word for tag in tags(architecture, libc_minor) for word in ("--platform", tag)]
    options = ("--no-cache-dir", "--no-compile", "--disable-pip-version-check", "--no-deps")
    pip = (sys.executable, "-m", "pip", "install", *options, "--only-binary", ":all:")
    for lock in locks:
        command = [*pip, *words, "--target", str(site), "--require-hashes", "--requirement", lock]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
