"""The command as a process on a real terminal."""

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
from contextlib import suppress
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
MANY_SECONDS = 60.0
LEAVES_SECOND_SCREEN, SHOWS_CURSOR = "\x1b[?1049l", "\x1b[?25h"


class Terminal:
    """The program in a process of its own, on a terminal of 100 x 30 cells."""

    def __init__(self, *words: str, **variables: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(self._ours)
        self.text = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", *words],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=PROJECT,
            env={"PATH": os.environ["PATH"], "TERM": "xterm", **variables},
        )
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
