"""Every mutant changes one place of the code as it is now, and what it makes of it can be read by Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from simulation.faults import SCENARIOS
from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.findings import FINDINGS, read_findings
from simulation.mutants.mutant import Mutant

PROJECT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_the_text_that_a_mutant_replaces_stands_once_in_the_code(mutant: Mutant) -> None:
    text = (PROJECT / mutant.file).read_text()
    changed = mutant.change(text)
    assert changed != text
    ast.parse(changed)


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    assert len(MUTANTS) >= 30
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.breaks for one in MUTANTS)


def test_each_mutant_is_searched_in_a_scenario_that_exists() -> None:
    assert {one.scenario for one in MUTANTS} <= set(SCENARIOS)


def test_a_survivor_says_what_is_missing() -> None:
    findings = read_findings(FINDINGS)
    found = {name for name, one in findings.items() if one.invariant}
    survived = [one for one in MUTANTS if one.name not in found]
    assert [one.name for one in survived if not (one.missing or one.harmless)] == []


def test_a_mutant_whose_text_is_gone_says_so() -> None:
    with pytest.raises(ValueError, match=r"mutant m: a\.py has its text 0 times"):
        Mutant("m", "a.py", "y = 1", "y = 2", "all").change("x = 1\n")
