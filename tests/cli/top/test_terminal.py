"""``dovetail top`` as a process on a real terminal: size, keys, signals, and what is left behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cli.top.client import VARIABLE
from tests.cli.top.small_console import (
    WHOLE,
    opened,
    refused,
    serving,
)
from tests.support.network.status_server import free_port

PROJECT = Path(__file__).resolve().parents[3]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MANY_SECONDS = 60.0


class Terminal:
    """The program in a process of its own, on a terminal of 100 x 30 cells."""

    def __init__(self, *words: str, url: str, directory: Path) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(self._ours)
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "top", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=PROJECT,
            env={"PATH": os.environ["PATH"], "TERM": "xterm", VARIABLE: url,
                 "DOVETAIL_DIRECTORY": str(directory)},
        )  # fmt: skip
        os.close(theirs)

    def read_until(self, text: str) -> None:
        """Until the program has written ``text``, or has ended."""
        deadline = time.monotonic() + MANY_SECONDS
        while text not in COLOURS.sub("", self.text):
            ready, _, _ = select.select([self._ours], [], [], deadline - time.monotonic())
            assert ready, f"{text!r} does not come: {self.text!r}"
            with suppress(OSError):  # Linux: the other side is closed
                if data := os.read(self._ours, 65_536):
                    self.text += data.decode(errors="replace")
                    continue
            break

    def resize(self, lines: int, columns: int) -> None:
        """What a terminal does: the kernel reports it only to processes that it controls."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def key(self, key: bytes) -> None:
        os.write(self._ours, key)

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._ours)

    def end(self) -> int:
        """The exit code, after all output was read."""
        self.read_until("never written")
        return self.process.wait(MANY_SECONDS)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


@pytest.fixture
def on_terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(*words: str, url: str) -> Terminal:
        started.append(Terminal(*words, url=url, directory=tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.close()


LEAVES_SECOND_SCREEN, SHOWS_CURSOR = "\x1b[?1049l", "\x1b[?25h"


@pytest.mark.parametrize("end", ["q", "Ctrl-C"])
def test_it_ends_cleanly_on_a_terminal(end: str, on_terminal: Callable[..., Terminal]) -> None:
    """Ctrl-C as the signal that the terminal makes of it. The keyboard is afterwards as it was."""
    with serving(refused(404), opened(WHOLE)) as console:
        terminal = on_terminal(url=console.url)
        terminal.read_until("ip-a")
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


def test_a_console_that_does_not_answer_leaves_a_clean_terminal(
    on_terminal: Callable[..., Terminal],
) -> None:
    terminal = on_terminal(url=f"http://127.0.0.1:{free_port()}")
    assert terminal.end() == 1
    after = terminal.text.rpartition(LEAVES_SECOND_SCREEN)[2]
    assert "dovetail: the console does not answer at" in after
    assert "Traceback" not in terminal.text
