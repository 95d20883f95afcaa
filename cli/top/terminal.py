"""The keyboard and the signals of the terminal, while the live picture is shown."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING_KEYS = frozenset(b"qQ\x03\x04")
"""q, and what Ctrl-C and Ctrl-D send where the terminal makes no signal of them."""


@contextmanager
def ended_by_user(
    stop: asyncio.Event, press: Callable[[bytes], None] = lambda keys: None
) -> Iterator[None]:
    """Sets ``stop`` at q, Ctrl-C or SIGTERM within the block, and passes other keys to ``press``.

    Needs the running loop of the main thread.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    try:
        with _keys(loop, stop, press):
            yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


@contextmanager
def resized(redraw: Callable[[], None]) -> Iterator[None]:
    """Calls ``redraw`` when the size of the terminal changes, within the block."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, redraw)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


@contextmanager
def _keys(
    loop: asyncio.AbstractEventLoop, stop: asyncio.Event, press: Callable[[bytes], None]
) -> Iterator[None]:
    """Without a keyboard (input from a pipe) only signals end the picture."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop.add_reader(descriptor, _read_key, loop, descriptor, stop, press)
    try:
        _without_lines(descriptor)
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)


def _without_lines(descriptor: int) -> None:
    """Keys come at once and are not shown. Ctrl-Z does nothing: a stopped program would leave its picture behind."""
    tty.setcbreak(descriptor)
    attributes = termios.tcgetattr(descriptor)
    attributes[6][termios.VSUSP] = bytes([os.fpathconf(descriptor, "PC_VDISABLE")])
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)


def _read_key(
    loop: asyncio.AbstractEventLoop,
    descriptor: int,
    stop: asyncio.Event,
    press: Callable[[bytes], None],
) -> None:
    try:
        keys = os.read(descriptor, 1_024)
    except OSError:  # the terminal is closed
        keys = b""
    if not keys or ENDING_KEYS & set(keys):
        loop.remove_reader(descriptor)
        stop.set()
    else:
        press(keys)
