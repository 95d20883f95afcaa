"""The published table is that of the findings, and findings are of mutants that exist."""

from __future__ import annotations

from pathlib import Path

from simulation.mutants.__main__ import FINDINGS, PAGE
from simulation.mutants.catalogue import MUTANTS
from simulation.mutants.mutant import Mutant
from simulation.mutants.page import page
from simulation.mutants.search import Finding, read_findings, write_findings

ONE = Mutant("one", "a.py", "x", "y", "all of it")
TWO = Mutant("two", "a.py", "z", "y", "a part")


def test_found_mutants_and_survivors_have_tables_of_their_own() -> None:
    text = page(
        [ONE, TWO],
        {"one": Finding("one", 1200, "pods run", "redis"), "two": Finding("two", 9, "", "api")},
    )
    found, survivors = text.split("## Survivors")
    assert "1 of 2 mutants were found; 0 were not searched yet." in found
    assert "| `one` | all of it | 1,200 | pods run (`redis`) |" in found
    assert "| `two` | a part | 9 | - |" in survivors


def test_findings_are_read_back(tmp_path: Path) -> None:
    findings = {"one": Finding("one", 3, "pods run", "redis")}
    write_findings(tmp_path / "findings.json", findings)
    assert read_findings(tmp_path / "findings.json") == findings
    assert read_findings(tmp_path / "none.json") == {}


def test_the_published_page_is_that_of_the_findings() -> None:
    findings = read_findings(FINDINGS)
    assert set(findings) <= {one.name for one in MUTANTS}
    assert not findings or PAGE.read_text() == page(MUTANTS, findings)
