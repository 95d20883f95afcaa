"""``python -m simulation.mutants``: search every mutant, and write docs/development/mutants.md."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.findings import (
    FINDINGS,
    PAGE,
    Setting,
    read_findings,
    write_findings,
)
from simulation.mutants.page import page
from simulation.mutants.search import Search


def main(arguments: list[str]) -> int:
    """The exit status: 1 when a mutant survived that is not known to be harmless."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutants", description=__doc__)
    names = sorted(one.name for one in MUTANTS)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME")
    parser.add_argument("--new", action="store_true", help="only those without a finding")
    parser.add_argument("--seeds", type=int, help="seeds of each scenario; the page is not written")
    parser.add_argument("--jobs", type=int, default=1, help="runs of one mutant at a time")
    options = parser.parse_args(arguments)
    setting = Setting() if options.seeds is None else Setting(seeds=options.seeds)
    findings, search, console = read_findings(FINDINGS), Search(setting, options.jobs), Console()
    survived = False
    by_name = {one.name: one for one in MUTANTS}
    for mutant in map(by_name.__getitem__, options.only or by_name):
        if options.new and mutant.name in findings:
            continue
        found = findings[mutant.name] = search.find(mutant)
        survived |= not found.invariant and not mutant.harmless
        by = f"{found.invariant}, {found.scenario} {found.seed}" if found.invariant else "survived"
        console.print(f"{found.name}: {by} ({found.runs} runs)", highlight=False, markup=False)
        if setting == Setting():
            # After each, because all of them take hours.
            write_findings(FINDINGS, findings)
            PAGE.write_text(page(MUTANTS, findings))
    return int(survived)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
