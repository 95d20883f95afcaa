"""``python -m release.find_wheels``: where all of requirements-local.lock installs from wheels, without a compiler.

It asks the package index, through pip, what each platform and Python would get, and writes the answer to
``release/wheels.json``. Nothing is installed. Run it by hand when the lock changes (it takes minutes); a test
compares the two.
What may go wrong: no network, or pip changes its words: the run ends with what pip said.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[1]
LOCK = PROJECT / "requirements-local.lock"
DESTINATION = PROJECT / "release" / "wheels.json"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
GLIBC = ("_2_28", "_2_27", "_2_26", "_2_24", "_2_17", "2014")
"""glibc 2.28 is that of Debian 10 and RHEL 8; pip does not add the older ones itself."""
PLATFORMS = {
    "Linux x86_64": ("linux", "x86_64", [f"manylinux{glibc}_x86_64" for glibc in GLIBC]),
    "Linux aarch64": ("linux", "aarch64", [f"manylinux{glibc}_aarch64" for glibc in GLIBC]),
    "macOS arm64": ("darwin", "arm64", ["macosx_14_0_arm64"]),
    "macOS x86_64": ("darwin", "x86_64", ["macosx_14_0_x86_64"]),
}
"""By name: what Python says of itself there, and the tags of wheels that run."""
PATIENCE = 300.0
_ENTRY = re.compile(r"^(?P<pin>[^\s#].*?) \\\n(?:    --hash=\S+(?: \\)?\n)+", re.MULTILINE)
_MISSING = re.compile(r"No matching distribution found for ([\w.-]+)")


def locked(text: str) -> dict[Requirement, str]:
    """Every package of a lock, with its whole entry, hashes included."""
    return {Requirement(entry["pin"]): entry[0] for entry in _ENTRY.finditer(text)}


def pins(text: str) -> list[str]:
    """``name==version ; marker`` of every package of a lock."""
    return sorted(str(one) for one in locked(text))


def wanted(text: str, platform: str, python: str) -> dict[str, str]:
    """Entries of the lock that are for this platform, by name."""
    system, machine, _ = PLATFORMS[platform]
    there = {
        **{name: str(value) for name, value in default_environment().items()},
        "sys_platform": system,
        "platform_machine": machine,
        "python_version": python,
        "python_full_version": f"{python}.0",
    }
    return {
        one.name: entry
        for one, entry in locked(text).items()
        if one.marker is None or one.marker.evaluate(there)
    }


def missing(text: str, platform: str, python: str) -> list[str]:
    """Packages without a wheel there. Raises RuntimeError when pip fails for another reason."""
    entries, absent = wanted(text, platform, python), list[str]()
    while entries:  # pip names one at a time
        said = _ask(entries, PLATFORMS[platform][2], python)
        if said is None:
            break
        found = _MISSING.search(said)
        if found is None or found[1] not in entries:
            raise RuntimeError(said)
        absent.append(found[1])
        del entries[found[1]]
    return sorted(absent)


def _ask(entries: dict[str, str], tags: list[str], python: str) -> str | None:
    """What pip complains of; None when all can be installed."""
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock.txt"
        lock.write_text("".join(entries.values()))
        command = [
            *(sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps"),
            *("--ignore-installed", "--target", folder, "--only-binary", ":all:"),
            *(word for tag in tags for word in ("--platform", tag)),
            *("--python-version", python, "--require-hashes", "--requirement", str(lock)),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    return done.stderr if done.returncode else None


def main() -> None:
    """Ask and write."""
    text = LOCK.read_text()
    found: dict[str, dict[str, list[str]]] = {}
    for platform in PLATFORMS:
        found[platform] = {python: missing(text, platform, python) for python in PYTHONS}
    document = {"packages": pins(text), "missing": found}
    DESTINATION.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
