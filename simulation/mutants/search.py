"""Applies each mutant to a copy of the tree and runs seeds there until an invariant breaks.

A seed that fails in the same way without the mutant proves nothing: it is run once more in the unchanged tree.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from simulation.mutants.mutant import Mutant

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("services", "shared", "local", "deploy", "cli", "simulation")
MOST_SOUND_FAILURES = 20
"""A mutant is given up after that many seeds that fail without it too."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``seeds``: how many were run; ``invariant``: the broken one, empty for a mutant that survived."""

    name: str
    seeds: int
    invariant: str
    scenario: str


@dataclass(slots=True)
class Search:
    """``seeds``: most runs of one mutant."""

    seeds: int
    jobs: int
    minutes: float
    quiet_seconds: float
    """Shorter than usual, because most mutants never come to rest; seeds without a mutant need seconds."""
    _sound: dict[tuple[str, int], str] = field(default_factory=dict)
    """Scenario and seed -> the invariant that breaks without any mutant, usually none."""

    def find(self, mutant: Mutant) -> Finding:
        """Run seeds with the mutant until one fails that does not fail without it."""
        with TemporaryDirectory(prefix="dovetail-mutant-") as directory:
            tree = Path(directory)
            copy_tree(tree)
            mutant.apply(tree)
            return self._find(mutant, tree)

    def _find(self, mutant: Mutant, tree: Path) -> Finding:
        first = 1
        for _ in range(MOST_SOUND_FAILURES):
            failed = self._first_failure(tree, mutant.scenario, first, self.seeds - first + 1)
            if failed is None:
                break
            seed, invariant = failed
            if self._without_mutant(mutant.scenario, seed) != invariant:
                return Finding(mutant.name, seed, invariant, mutant.scenario)
            first = seed + 1
            if first > self.seeds:
                break
        return Finding(mutant.name, self.seeds, "", mutant.scenario)

    def _without_mutant(self, scenario: str, seed: int) -> str:
        key = scenario, seed
        if key not in self._sound:
            failed = self._first_failure(PROJECT, scenario, seed, 1)
            self._sound[key] = failed[1] if failed is not None else ""
        return self._sound[key]

    def _first_failure(
        self, tree: Path, scenario: str, first: int, seeds: int
    ) -> tuple[int, str] | None:
        """(seed, invariant) of the first failing seed of ``tree``."""
        with TemporaryDirectory() as directory:
            failures = Path(directory) / "failures"
            options = {
                "--seeds": seeds,
                "--first-seed": first,
                "--scenario": scenario,
                "--jobs": min(self.jobs, seeds),
                "--minutes": self.minutes,
                "--quiet-seconds": self.quiet_seconds,
                "--failures": failures,
            }
            command = [sys.executable, "-m", "simulation", "--stop"]
            command += [str(part) for pair in options.items() for part in pair]
            done = subprocess.run(
                command, cwd=tree, env=_environment(tree), capture_output=True, check=False
            )
            found = [json.loads(line) for line in _lines(failures)]
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
        earliest = min(found, key=lambda one: int(one["seed"]), default=None)
        return None if earliest is None else (int(earliest["seed"]), str(earliest["invariant"]))


def copy_tree(tree: Path) -> None:
    """Everything that a run imports or reads."""
    for name in COPIED:
        shutil.copytree(PROJECT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tree)


def _environment(tree: Path) -> dict[str, str]:
    # An editable installation names the unchanged tree; this path comes first.
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}


def _lines(path: Path) -> Iterator[str]:
    if path.exists():
        yield from path.read_text().splitlines()


def read_findings(path: Path) -> dict[str, Finding]:
    """By name; empty when nothing was found yet."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return {row["name"]: Finding(**row) for row in rows}


def write_findings(path: Path, findings: dict[str, Finding]) -> None:
    """Sorted by name."""
    rows = [asdict(findings[name]) for name in sorted(findings)]
    path.write_text(json.dumps(rows, indent=1) + "\n")
