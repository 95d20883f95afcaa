"""What is checked before a commit, at night and before a release."""

from __future__ import annotations

import re

import pytest

from release.check import of_changelog, of_git, of_lock, of_version
from release.coverage_table import document
from release.locks import LOCAL, LOCKS, PROJECT, SERVICES
from tests.support.texts.documents import documents

MAKEFILE = (PROJECT / "Makefile").read_text()
(HOOKS,) = documents(PROJECT / ".pre-commit-config.yaml")


def recipe(target: str) -> list[str]:
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None
    return [line.replace("$(BIN)", ".venv/bin").strip("\t@") for line in found[1].splitlines()]


def test_hooks_check_what_make_lint_checks_and_fetch_nothing() -> None:
    (local,) = HOOKS["repos"]
    assert local["repo"] == "local"
    assert {hook["language"] for hook in local["hooks"]} == {"system"}
    entries = [hook["entry"].removesuffix(" --force-exclude") for hook in local["hooks"]]
    assert {*entries} == {line.removesuffix(" .") for line in recipe("lint")}


def test_a_nightly_run_takes_what_the_daily_one_leaves_out() -> None:
    assert all('-m "not nightly"' in line for line in recipe("test") if "pytest" in line)
    (nightly,) = (line for line in recipe("nightly") if "pytest" in line)
    assert "-m nightly" in nightly
    assert "--timeout" in nightly


def test_the_locks_are_those_that_are_made() -> None:
    assert {path.name for path in PROJECT.glob("requirements*.lock")} == LOCKS.keys()


@pytest.mark.parametrize("name", [SERVICES, LOCAL])
def test_the_locks_hold_what_pyproject_declares(name: str) -> None:
    project = (PROJECT / "pyproject.toml").read_text()
    assert [*of_lock(project, name, (PROJECT / name).read_text())] == []


PYPROJECT = """
[project]
dependencies = ["redis>=8.1,<9"]
[project.optional-dependencies]
local = ["moto>=5.2.5,<5.3"]
"""


@pytest.mark.parametrize(
    ("name", "lock", "faults"),
    [
        (SERVICES, "redis==8.1.0 \\\n", 0),
        (SERVICES, "redis==9.0.0 \\\n", 1),
        (SERVICES, "", 1),
        (LOCAL, "redis==8.1.0 \\\nmoto==5.2.9 ; python_version > '3' \\\n", 0),
        (LOCAL, "redis==8.1.0 \\\nmoto==5.3.0 \\\n", 1),
    ],
)
def test_a_lock_that_lacks_what_is_declared_is_told(name: str, lock: str, faults: int) -> None:
    assert len([*of_lock(PYPROJECT, name, lock)]) == faults


@pytest.mark.parametrize(
    ("changelog", "faults"),
    [
        ("# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-02\n\n- More.\n", 0),
        ("# Changelog\n\n## 1.2.3 - 2026-01-02\n\n- More.\n", 0),
        ("# Changelog\n\n## Unreleased\n\n- More.\n", 2),
        ("# Changelog\n\n## 1.2.3 - 2026-01-02\n\n## 1.2.2 - 2026-01-01\n\n- Old.\n", 1),
        ("# Changelog\n\n## 1.2.3\n\n- More.\n", 1),
    ],
)
def test_a_release_needs_its_section_in_the_changelog(changelog: str, faults: int) -> None:
    assert len([*of_changelog(changelog, "1.2.3")]) == faults


def test_a_release_is_committed_numbered_and_new() -> None:
    assert [*of_version("1.2.3"), *of_git("", "v1.2.2\n", "1.2.3")] == []
    assert len([*of_version("1.2.3.dev1"), *of_git(" M a\n", "v1.2.2\nv1.2.3\n", "1.2.3")]) == 3


def test_the_coverage_page_has_a_row_for_each_part() -> None:
    summary = {
        "num_statements": 8, "covered_lines": 7, "num_branches": 2, "covered_branches": 1,
    }  # fmt: skip
    files = {
        "shared/api/a.py": summary,
        "shared/api/schema/b.py": summary,
        "cli/main.py": summary,
    }
    page = document({"files": {name: {"summary": one} for name, one in files.items()}})
    assert page.splitlines()[-3:] == [
        "| cli | 8 | 2 | **80.0 %** |",
        "| shared/api | 16 | 4 | **80.0 %** |",
        "| all | 24 | 6 | **80.0 %** |",
    ]


def test_a_part_at_the_bar_is_not_marked() -> None:
    whole = {"num_statements": 17, "covered_lines": 17, "num_branches": 3, "covered_branches": 0}
    assert "| cli | 17 | 3 | 85.0 % |" in document({"files": {"cli/main.py": {"summary": whole}}})


def test_no_test_imports_what_prepares_a_simulated_run() -> None:
    """That silences logs and changes moto for all tests of the process; a run has a process of its own."""
    changing = re.compile(r"^\s*(?:from|import) simulation\.(?:run|preparation)\b", re.MULTILINE)
    found = (PROJECT / "tests").rglob("*.py")
    assert [str(path) for path in found if changing.search(path.read_text())] == []
