"""``python -m simulation.mutants``: search every mutant, and write docs/development/mutants.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.page import page
from simulation.mutants.search import PROJECT, Finding, Search, read_findings, write_findings

FINDINGS = Path(__file__).with_name("findings.json")
PAGE = PROJECT / "docs" / "development" / "mutants.md"


def main(arguments: list[str]) -> int:
    """The exit status: 1 when a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutants", description=__doc__)
    names = sorted(one.name for one in MUTANTS)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME")
    parser.add_argument("--new", action="store_true", help="only those without a finding")
    parser.add_argument("--seeds", type=int, default=2_000, help="most seeds for one mutant")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--quiet-seconds", type=float, default=300.0)
    options = parser.parse_args(arguments)
    findings = read_findings(FINDINGS)
    search, console = (
        Search(options.seeds, options.jobs, options.minutes, options.quiet_seconds),
        Console(),
    )
    searched: list[Finding] = []
    by_name = {one.name: one for one in MUTANTS}
    for mutant in map(by_name.__getitem__, options.only or by_name):
        if options.new and mutant.name in findings:
            continue
        found = findings[mutant.name] = search.find(mutant)
        searched.append(found)
        by = found.invariant or "survived"
        console.print(f"{found.name}: {by} ({found.seeds} seeds)", highlight=False, markup=False)
        # After each, because all of them take hours.
        write_findings(FINDINGS, findings)
        PAGE.write_text(page(MUTANTS, findings))
    return int(any(not one.invariant for one in searched))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
