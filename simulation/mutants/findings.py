"""What was searched, with which setting, and what was found. Imports no run: pages and tests read it too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from simulation.mutants.loaded_code import PROJECT
from simulation.mutants.mutant import Mutant

FINDINGS = Path(__file__).with_name("findings.json")
PAGE = PROJECT / "docs" / "development" / "mutants.md"


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


def read_findings(path: Path) -> dict[str, Finding]:
    """By name; empty when nothing was found yet."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return {row["name"]: Finding(**row) for row in rows}


def write_findings(path: Path, findings: dict[str, Finding]) -> None:
    """Sorted by name."""
    rows = [asdict(findings[name]) for name in sorted(findings)]
    path.write_text(json.dumps(rows, indent=1) + "\n")
