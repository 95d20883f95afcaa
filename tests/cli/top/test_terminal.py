"""``dovetail top`` as a process on a real terminal: size, keys, signals, and what is left behind."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.top.client import VARIABLE
from tests.cli.on_terminal import LEAVES_SECOND_SCREEN, SHOWS_CURSOR, Terminal
from tests.cli.top.small_console import (
    DECISIONS,
    WHOLE,
    document,
    opened,
    refused,
    serving,
)
from tests.support.network.status_server import free_port

PROJECT = Path(__file__).resolve().parents[3]
MANY_SECONDS = 60.0


@pytest.fixture
def on_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*words: str, url: str) -> Terminal:
        variables = {VARIABLE: url, "DOVETAIL_DIRECTORY": str(tmp_path)}
        started.append(Terminal("top", *words, **variables))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["q", "Ctrl-C"])
def test_it_ends_cleanly_on_a_terminal(end: str, on_terminal: Callable[..., Terminal]) -> None:
    """Ctrl-C as the signal that the terminal makes of it. The keyboard is afterwards as it was."""
    with serving(refused(404), opened(WHOLE)) as console:
        terminal = on_terminal(url=console.url)
        console.reports = {"decisions": document(DECISIONS)}
        terminal.read_until("ip-a")
        terminal.key(b"2")
        terminal.read_until("bought for 3 pods")
        terminal.key(b"1")
        terminal.resize(30, 40)
        terminal.read_until("NAME  AGE")  # no type: it has no room any more
        if end == "q":
            terminal.key(b"xq")
        else:
            terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0
    assert terminal.attributes() == terminal.before
    assert LEAVES_SECOND_SCREEN in terminal.text
    assert SHOWS_CURSOR in terminal.text
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_a_console_that_does_not_answer_leaves_a_clean_terminal(
    on_terminal: Callable[..., Terminal],
) -> None:
    terminal = on_terminal(url=f"http://127.0.0.1:{free_port()}")
    assert terminal.end() == 1
    after = terminal.text.rpartition(LEAVES_SECOND_SCREEN)[2]
    assert "dovetail: the console does not answer at" in after
    assert "Traceback" not in terminal.text
