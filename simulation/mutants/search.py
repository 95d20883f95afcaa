"""Applies each mutant to a copy of the tree and runs seeds there until an invariant breaks.

A run that fails in the same way without the mutant proves nothing: it is repeated in the unchanged tree.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from simulation.mutants.mutant import Mutant

PROJECT = Path(__file__).resolve().parents[2]
COPIED = ("services", "shared", "local", "deploy", "cli", "simulation")


@dataclass(frozen=True, slots=True)
class Finding:
    """``runs``: how many there were; ``invariant``: the broken one, empty for a mutant that survived."""

    name: str
    runs: int
    invariant: str = ""
    scenario: str = ""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """The same for all mutants. A mutant is searched in its own scenario and in ``scenarios``, each with the seeds from
    1 to ``seeds``."""

    seeds: int = 3
    scenarios: tuple[str, ...] = ("quiet", "mixed")
    minutes: float = 3.0
    quiet_seconds: float = 300.0
    """Shorter than usual, because most mutants never come to rest; sound runs need seconds."""

    def scenarios_of(self, mutant: Mutant) -> list[str]:
        """In the order of the search."""
        return [*dict.fromkeys((mutant.scenario, *self.scenarios))]


@dataclass(slots=True)
class Search:
    """Searches one mutant after the other."""

    setting: Setting
    _sound: dict[tuple[str, int], str] = field(default_factory=dict)
    """Scenario and seed -> the invariant that breaks without any mutant, usually none."""

    def find(self, mutant: Mutant) -> Finding:
        """Run seeds with the mutant until one fails that does not fail without it."""
        scenarios = self.setting.scenarios_of(mutant)
        with TemporaryDirectory(prefix="dovetail-mutant-") as directory:
            tree = Path(directory)
            copy_tree(tree)
            mutant.apply(tree)
            with self._failures(tree, scenarios, self.setting.seeds) as failures:
                for one in failures:
                    key = str(one["scenario"]), int(one["seed"])
                    if self._without_mutant(*key) != one["invariant"]:
                        return Finding(mutant.name, one["runs"], one["invariant"], *key)
        return Finding(mutant.name, len(scenarios) * self.setting.seeds)

    def _without_mutant(self, scenario: str, seed: int) -> str:
        key = scenario, seed
        if key not in self._sound:
            with self._failures(PROJECT, [scenario], 1, first=seed) as failures:
                self._sound[key] = next((str(one["invariant"]) for one in failures), "")
        return self._sound[key]

    @contextmanager
    def _failures(
        self, tree: Path, scenarios: list[str], seeds: int, first: int = 1
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """What breaks in the runs of ``tree``, as it breaks; the runs end with the block."""
        setting = self.setting
        options = {
            "--seeds": seeds,
            "--first-seed": first,
            "--minutes": setting.minutes,
            "--quiet-seconds": setting.quiet_seconds,
        }
        words = [str(part) for pair in options.items() for part in pair]
        command = [sys.executable, "-m", "simulation.mutants.runs", *scenarios, *words]
        with (
            TemporaryFile() as errors,
            subprocess.Popen(
                command,
                cwd=tree,
                env=_environment(tree),
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as process,
        ):
            assert process.stdout is not None
            try:
                yield map(json.loads, process.stdout)
            finally:
                ended = process.poll()
                process.terminate()
            if ended not in (None, 0):
                errors.seek(0)
                raise RuntimeError(errors.read().decode(errors="replace")[-2000:])


def copy_tree(tree: Path) -> None:
    """Everything that a run imports or reads; compiled modules too, which are valid as long as their source is."""
    for name in COPIED:
        shutil.copytree(PROJECT / name, tree / name)
    shutil.copy(PROJECT / "pyproject.toml", tree)


def _environment(tree: Path) -> dict[str, str]:
    # An editable installation names the unchanged tree; this path comes first.
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}


def read_findings(path: Path) -> dict[str, Finding]:
    """By name; empty when nothing was found yet."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return {row["name"]: Finding(**row) for row in rows}


def write_findings(path: Path, findings: dict[str, Finding]) -> None:
    """Sorted by name."""
    rows = [asdict(findings[name]) for name in sorted(findings)]
    path.write_text(json.dumps(rows, indent=1) + "\n")
