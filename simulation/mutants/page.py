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
## Not found yet

Each has an invariant that would see it. The last column says what has to happen in a run; no seed that was run had it.

| mutant | what it breaks | seeds | scenario | what has to happen |
|---|---|---:|---|---|
"""
HARMLESS = """
## Equivalent

Another part of Dovetail holds what these break, so nothing that was promised can break. They are counted apart.

| mutant | what it changes | why it is harmless |
|---|---|---|
"""


def page(mutants: Iterable[Mutant], findings: Mapping[str, Finding]) -> str:
    """The whole page."""
    listed, setting = list(mutants), Setting()
    found = [one for one in listed if _is_found(one, findings)]
    harmless = [one for one in listed if one.harmless and one not in found]
    survived = [one for one in listed if one not in found and not one.harmless]
    text = HEAD + SETTING.format(minutes=setting.minutes, quiet=setting.quiet_seconds)
    parts = [f"{len(found)} of {len(listed)} mutants were found"]
    if harmless:
        parts.append(f"{len(harmless)} are equivalent to the sound code")
    if survived:
        parts.append(f"{len(survived)} were not found with the seeds that were run")
    text += "; ".join(parts) + ".\n\n" + COLUMNS
    text += "".join(_found(one, findings[one.name]) for one in found)
    if survived:
        text += SURVIVORS + "".join(_survivor(one, findings) for one in survived)
    return text + _harmless(harmless)


def _is_found(mutant: Mutant, findings: Mapping[str, Finding]) -> bool:
    return mutant.name in findings and bool(findings[mutant.name].invariant)


def _survivor(mutant: Mutant, findings: Mapping[str, Finding]) -> str:
    seeds = findings[mutant.name].seeds if mutant.name in findings else 0
    return f"| `{mutant.name}` | {mutant.breaks} | {seeds:,} | `{mutant.scenario}` | {mutant.missing} |\n"


def _found(mutant: Mutant, finding: Finding) -> str:
    by = f"{finding.invariant} (`{finding.scenario}`)"
    return f"| `{mutant.name}` | {mutant.breaks} | {finding.seeds:,} | {by} |\n"


def _harmless(mutants: Sequence[Mutant]) -> str:
    rows = "".join(f"| `{one.name}` | {one.breaks} | {one.harmless} |\n" for one in mutants)
    return HARMLESS + rows if rows else ""
