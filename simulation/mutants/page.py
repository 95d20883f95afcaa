"""docs/development/mutants.md, from the findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simulation.mutants.findings import Finding, Setting
from simulation.mutants.mutant import Mutant

HEAD = """# Mutants

A simulation that finds nothing proves something only if it can find faults. Each row is a fault of one line, put into
the real code by `python -m simulation.mutants`, which then runs seeds until an invariant breaks that does not break
without the mutant. Only the process of the run has the fault. This page is written by that command.

"""
SETTING = """A mutant is searched in its scenario with the seeds 1, 2, 3 and so on; the column seeds says how many were
run. A run has {minutes:g} simulated minutes and {quiet:g} s for the quiet end, unless the catalogue says otherwise.

"""
COLUMNS = "| mutant | what it breaks | seeds | found by |\n|---|---|---:|---|\n"
SURVIVORS = """
## Survivors

Nothing that was run brought about what would show these.

| mutant | what it breaks | seeds | scenario | what is missing |
|---|---|---:|---|---|
"""
HARMLESS = """
## Equivalent

Another part of Dovetail holds what these break, so nothing that was promised can break. They are counted apart.

| mutant | what it changes | why it is harmless |
|---|---|---|
"""


def page(mutants: Iterable[Mutant], findings: Mapping[str, Finding]) -> str:
    """The whole page. Mutants whose search is not complete have no row."""
    listed = list(mutants)
    setting = Setting()
    searched = [one for one in listed if is_complete(one, findings.get(one.name))]
    found = [one for one in searched if one.name in findings and findings[one.name].invariant]
    rest = [one for one in searched if one not in found]
    survived = [one for one in rest if not one.harmless]
    text = HEAD + SETTING.format(minutes=setting.minutes, quiet=setting.quiet_seconds)
    text += _summary(len(listed), len(searched), len(found), len(rest) - len(survived)) + COLUMNS
    text += "".join(_found(one, findings[one.name]) for one in found)
    if survived:
        text += SURVIVORS + "".join(
            f"| `{one.name}` | {one.breaks} | {findings[one.name].seeds:,} | `{one.scenario}` | {one.missing} |\n"
            for one in survived
        )
    return text + _harmless([one for one in rest if one.harmless])


def is_complete(mutant: Mutant, finding: Finding | None) -> bool:
    """Whether nothing is left to be searched: it was found or explained, or all seeds were run."""
    if finding is None:
        return bool(mutant.harmless)
    explained = mutant.harmless or mutant.missing
    return bool(finding.invariant or explained) or finding.seeds >= Setting().seeds


def _summary(listed: int, searched: int, found: int, harmless: int) -> str:
    parts = [f"{found} of {searched} mutants were found"]
    if harmless:
        parts.append(f"{harmless} are equivalent to the sound code")
    if listed > searched:
        parts.append(f"{listed - searched} were not searched to the end yet")
    return "; ".join(parts) + ".\n\n"


def _found(mutant: Mutant, finding: Finding) -> str:
    by = f"{finding.invariant} (`{finding.scenario}`)"
    return f"| `{mutant.name}` | {mutant.breaks} | {finding.seeds:,} | {by} |\n"


def _harmless(mutants: Sequence[Mutant]) -> str:
    rows = "".join(f"| `{one.name}` | {one.breaks} | {one.harmless} |\n" for one in mutants)
    return HARMLESS + rows if rows else ""
