"""The published table is that of the findings, and findings are of mutants that exist."""

from __future__ import annotations

from pathlib import Path

from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.findings import (
    FINDINGS,
    PAGE,
    Finding,
    read_findings,
    write_findings,
)
from simulation.mutants.mutant import Mutant
from simulation.mutants.page import page

ONE = Mutant("one", "a.py", "x", "y", "all of it")
TWO = Mutant("two", "a.py", "z", "y", "a part", "api", missing="a late list")
THREE = Mutant("three", "a.py", "w", "y", "nothing", harmless="the API server refuses it")


def test_found_mutants_survivors_and_harmless_ones_have_tables_of_their_own() -> None:
    found_by = Finding("one", 1200, "pods run", "redis")
    findings = {"one": found_by, "two": Finding("two", 9), "three": Finding("three", 9)}
    found, rest = page([ONE, TWO, THREE], findings).split("## Not found yet")
    survivors, harmless = rest.split("## Equivalent")
    assert (
        "1 of 3 mutants were found; 1 are equivalent to the sound code; "
        "1 were not found with the seeds that were run.\n"
    ) in found
    assert "| `one` | all of it | 1,200 | pods run (`redis`) |" in found
    assert "| `two` | a part | 9 | `api` | a late list |" in survivors
    assert "| `three` | nothing | the API server refuses it |" in harmless


def test_a_mutant_that_was_not_searched_has_no_seeds() -> None:
    text = page([ONE, TWO], {"one": Finding("one", 1, "pods run", "api")})
    assert "| `two` | a part | 0 | `api` | a late list |" in text


def test_findings_are_read_back(tmp_path: Path) -> None:
    findings = {"one": Finding("one", 3, "pods run", "redis")}
    write_findings(tmp_path / "findings.json", findings)
    assert read_findings(tmp_path / "findings.json") == findings
    assert read_findings(tmp_path / "none.json") == {}


def test_the_published_page_is_that_of_the_findings() -> None:
    findings = read_findings(FINDINGS)
    assert set(findings) <= {one.name for one in MUTANTS}
    assert not findings or PAGE.read_text() == page(MUTANTS, findings)
