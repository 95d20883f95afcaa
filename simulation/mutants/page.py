"""docs/development/mutants.md, from the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simulation.mutants.mutant import Mutant
from simulation.mutants.search import Finding

HEAD = """# Mutants

A simulation that finds nothing proves something only if it can find faults. Each row is a fault of one line, put into a
copy of the real code by `python -m simulation.mutants`, which then runs seeds until an invariant breaks that does not
break without the mutant. This page is written by that command.

"""
COLUMNS = "| mutant | what it breaks | seeds | found by |\n|---|---|---:|---|\n"


def page(mutants: Iterable[Mutant], findings: Mapping[str, Finding]) -> str:
    """The whole page. Mutants that were not searched have no row."""
    listed = list(mutants)
    searched = [one for one in listed if one.name in findings]
    found = [one for one in searched if findings[one.name].invariant]
    survived = [one for one in searched if not findings[one.name].invariant]
    summary = (
        f"{len(found)} of {len(searched)} mutants were found; "
        f"{len(listed) - len(searched)} were not searched yet.\n\n"
    )
    rows = "".join(_row(one, findings[one.name]) for one in found)
    text = HEAD + summary + COLUMNS + rows
    if survived:
        text += (
            "\n## Survivors\n\nEach is an invariant or a fault that is missing, a fault that another part of\n"
            "Dovetail makes harmless, or it needs more seeds than were run.\n\n" + COLUMNS
        )
        text += "".join(_row(one, findings[one.name]) for one in survived)
    return text


def _row(mutant: Mutant, finding: Finding) -> str:
    by = f"{finding.invariant} (`{finding.scenario}`)" if finding.invariant else "-"
    return f"| `{mutant.name}` | {mutant.breaks} | {finding.seeds:,} | {by} |\n"
