"""What was searched, with which setting, and what was found. Imports no run: pages and tests read it too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from simulation.mutants.loaded_code import PROJECT

FINDINGS = Path(__file__).with_name("findings.json")
PAGE = PROJECT / "docs" / "development" / "mutants.md"


@dataclass(frozen=True, slots=True)
class Finding:
    """``seeds``: how many were run; ``invariant``: what the last of them broke, empty for a mutant that survived."""

    name: str
    seeds: int
    invariant: str = ""
    scenario: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A mutant is searched in its own scenario, with the seeds from 1 to ``seeds``. A mutant may have other times."""

    seeds: int = 8
    minutes: float = 3.0
    quiet_seconds: float = 150.0
    """Shorter than usual, because most mutants never come to rest; sound runs need seconds."""


def read_findings(path: Path) -> dict[str, Finding]:
    """By name; empty when nothing was found yet."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return {row["name"]: Finding(**row) for row in rows}


def write_findings(path: Path, findings: dict[str, Finding]) -> None:
    """Sorted by name."""
    rows = [asdict(findings[name]) for name in sorted(findings)]
    path.write_text(json.dumps(rows, indent=1) + "\n")
