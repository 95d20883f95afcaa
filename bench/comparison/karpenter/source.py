"""Karpenter's source, with a way to another planner, built as the tests of one of its packages.

Nothing of Karpenter is in this repository: the source comes from the Go module proxy, is copied into a cache folder,
and the adapter's files are laid beside its scheduler. Raises Refused when it cannot be fetched, changed or built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

MODULE = "sigs.k8s.io/karpenter"
VERSION = "v1.15.0"
SUITES: Mapping[str, str] = {
    "scheduling": "pkg/controllers/provisioning/scheduling",
    "provisioning": "pkg/controllers/provisioning",
    "disruption": "pkg/controllers/disruption",
}
"""Suite -> its package."""
SCHEDULER = Path(SUITES["scheduling"])
ADAPTER = tuple(sorted(Path(__file__).parent.glob("*.go")))
SOLVE = "func (s *Scheduler) Solve("
SOLVE_IN_KARPENTER = "func (s *Scheduler) solveInKarpenter("
WAITED = re.compile(r"(Eventually\([\w.]+, )(?:time\.Second\*\d+|\d+\*time\.Second)\)")
GO_LINE = re.compile(r"^go (\d+\.\d+)[.\d]*$", re.MULTILINE)


class Refused(Exception):
    """The specifications cannot be run; the text says why."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where copies and built tests are kept from one run to the next."""
    base = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dovetail"


def prepared(version: str, folder: Path) -> Path:
    """A copy of Karpenter's source in ``folder``, with the adapter of today in it."""
    copy = folder / f"karpenter-{version}"
    if not copy.exists():
        unfinished = copy.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(_downloaded(version), unfinished)
        _make_writable(unfinished)
        _change(unfinished)
        unfinished.rename(copy)
    (copy / SCHEDULER / "dovetail.go").unlink(missing_ok=True)
    for file in ADAPTER:
        shutil.copyfile(file, copy / SCHEDULER / f"dovetail_{file.name}")
    return copy


def built(copy: Path, suite: str, tags: str = "") -> Path:
    """The tests of a suite as a program. Go builds again only what has changed. ``tags``: build tags of Go."""
    program = copy / f"{suite}{tags}.test"
    package = f"./{SUITES[suite]}"
    run_go(["test", "-mod=mod", f"-tags={tags}", "-c", "-o", str(program), package], copy)
    return program


def renamed(scheduler: str) -> str:
    """The source of Karpenter's scheduler with its Solve out of the adapter's way."""
    if scheduler.count(SOLVE) != 1:
        raise Refused(
            f"this version of Karpenter has no single {SOLVE!r}: change bench/comparison/karpenter"
        )
    return scheduler.replace(SOLVE, SOLVE_IN_KARPENTER)


def patient(specifications: str) -> str:
    """Specifications that wait for minutes where they gave a goroutine seconds of the wall clock: where the machine has
    other work, one that misses them leaves its goroutine behind and does not end."""
    return WAITED.sub(r"\g<1>3*time.Minute)", specifications)


def with_any_patch(go_mod: str) -> str:
    """go.mod with the first patch release of Go: any of the same minor release builds it."""
    return GO_LINE.sub(r"go \1.0", go_mod)


def _downloaded(version: str) -> Path:
    """The folder of the module cache. It is found even when Go is older than the module asks for."""
    told = run_go(["mod", "download", "-json", f"{MODULE}@{version}"], Path.cwd(), check=False)
    found = json.loads(told or "{}")
    cached = run_go(["env", "GOMODCACHE"], Path.cwd()).strip()
    source = Path(found.get("Dir") or f"{cached}/{MODULE}@{version}")
    if not source.is_dir():
        raise Refused(f"{MODULE}@{version} cannot be fetched: {found.get('Error', 'no answer')}")
    return source


def _make_writable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | stat.S_IWUSR)


def _change(copy: Path) -> None:
    scheduler, go_mod = copy / SCHEDULER / "scheduler.go", copy / "go.mod"
    scheduler.write_text(renamed(scheduler.read_text()))
    go_mod.write_text(with_any_patch(go_mod.read_text()))
    for package in SUITES.values():
        for file in (copy / package).glob("*_test.go"):
            file.write_text(patient(file.read_text()))


def run_go(arguments: list[str], folder: Path, *, check: bool = True) -> str:
    """What ``go`` prints."""
    if shutil.which("go") is None:
        raise Refused(
            "go is not on PATH: install Go of the minor release that Karpenter's go.mod names"
        )
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise Refused(f"go {' '.join(arguments)}: {done.stderr[-4000:]}")
    return done.stdout
