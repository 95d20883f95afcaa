"""Every mutant changes one place of the code as it is now, and what it makes of it can be read by Python."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.mutant import Mutant

PROJECT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)
def test_the_text_that_a_mutant_replaces_stands_once_in_the_code(
    mutant: Mutant, tmp_path: Path
) -> None:
    copy = tmp_path / mutant.file
    copy.parent.mkdir(parents=True)
    shutil.copy(PROJECT / mutant.file, copy)
    mutant.apply(tmp_path)
    assert copy.read_text() != (PROJECT / mutant.file).read_text()
    ast.parse(copy.read_text())


def test_there_are_enough_mutants_with_names_of_their_own() -> None:
    assert len(MUTANTS) >= 30
    assert len({one.name for one in MUTANTS}) == len(MUTANTS)
    assert all(one.breaks for one in MUTANTS)


def test_a_mutant_whose_text_is_gone_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"mutant m: a\.py has its text 0 times"):
        Mutant("m", "a.py", "y = 1", "y = 2", "all").apply(tmp_path)
