"""Tables of the command line: rows that can be cut and grepped, text as it is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cli.printing import print_table, table_of

HEADINGS = ("node", "why")


@pytest.fixture(autouse=True)
def _no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def printed(capsys: pytest.CaptureFixture[str], *rows: tuple[str, ...], title: str = "") -> str:
    print_table(HEADINGS, rows, title=title)
    return capsys.readouterr().out


def test_a_row_in_a_pipe_is_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    lines = printed(capsys, ("n1", long), ("n2", "short")).splitlines()
    assert [line.split() for line in lines] == [["NODE", "WHY"], ["n1", long], ["n2", "short"]]


def test_a_row_on_a_narrow_terminal_is_folded_and_whole() -> None:
    shown = io.StringIO()
    Console(file=shown, width=20).print(table_of(HEADINGS, [("n1", "x" * 40)]))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 20
    assert "".join(lines).count("x") == 40


def test_brackets_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert "[red]no[/red] [a]" in printed(capsys, ("n1", "[red]no[/red] [a]"))


def test_a_title_stands_above(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, title="[x] Nodes").splitlines()[1] == "[x] Nodes"
