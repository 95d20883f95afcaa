"""``python -m simulation.mutants``: search every mutant, and write docs/development/mutants.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console

from simulation.faults import SCENARIOS
from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.findings import (
    FINDINGS,
    PAGE,
    Setting,
    read_findings,
    write_findings,
)
from simulation.mutants.mutant import Mutant
from simulation.mutants.page import page
from simulation.mutants.reach import table
from simulation.mutants.search import Search


def main(arguments: list[str]) -> int:
    """The exit status: 1 when a mutant survived that is not known to be harmless."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutants", description=__doc__)
    names = sorted(one.name for one in MUTANTS)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME")
    parser.add_argument("--new", action="store_true", help="only those that were not found yet")
    parser.add_argument("--seeds", type=int, default=Setting().seeds, help="the last seed of each")
    parser.add_argument("--jobs", type=int, default=1, help="runs of one mutant at a time")
    parser.add_argument(
        "--reach",
        action="append",
        choices=sorted(SCENARIOS),
        metavar="SCENARIO",
        help="only count how often the code that mutants change runs there",
    )
    options = parser.parse_args(arguments)
    search, console = Search(Setting(seeds=options.seeds), options.jobs), Console(soft_wrap=True)
    if options.reach:
        for line in table(MUTANTS, search.reach(MUTANTS, options.reach)):
            console.print(line, highlight=False, markup=False)
        return 0
    by_name = {one.name: one for one in MUTANTS}
    chosen = [by_name[name] for name in options.only or by_name]
    return int(_search(chosen, search, console, new=options.new))


def _search(mutants: Sequence[Mutant], search: Search, console: Console, *, new: bool) -> bool:
    """Whether one survived that is not known to be harmless. ``new``: go on with those that were not found yet."""
    survived = False
    for mutant in mutants:
        known = read_findings(FINDINGS).get(mutant.name)
        if new and known is not None and known.invariant:
            continue
        found = search.find(mutant, known.seeds if new and known is not None else 0)
        survived |= not found.invariant and not mutant.harmless
        text = f"{found.name}: {found.invariant or 'survived'} ({found.seeds} seeds)"
        console.print(text, highlight=False, markup=False)
        # After each, because all of them take hours; read again, because two searches may run.
        findings = {**read_findings(FINDINGS), mutant.name: found}
        write_findings(FINDINGS, findings)
        PAGE.write_text(page(MUTANTS, findings))
    return survived


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
