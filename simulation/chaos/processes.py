"""The processes of a running stack as faults reach them: real signals; and what each service says of itself."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from local.stack import Stack
from local.stack_state import PartState
from simulation.owner import Owner

REQUEST_SECONDS = 10.0
CALLBACKS_PER_SECOND = 200.0
"""How many callbacks of a busy process are taken for a second, when a kill is to strike after so many."""


def later(seconds: float, act: Callable[..., object], *arguments: object) -> None:
    """Call ``act`` after ``seconds``."""
    asyncio.get_running_loop().call_later(seconds, act, *arguments)


class RealProcess:
    """One part of the stack; the supervisor starts it again.

    ``ordered``: how often chaos ended it. Between its end and its next start it has no state, and signals reach nobody.
    """

    def __init__(self, stack: Stack, name: str, url: str = "") -> None:
        self._stack, self.name, self._url = stack, name, url
        self.ordered = 0
        self.owner = Owner(name)
        """Its clock is the machine's: no skew."""

    def _state(self) -> PartState | None:
        return next((part for part in self._stack.running().parts if part.name == self.name), None)

    @property
    def starts(self) -> int:
        """How often it was started again. Raises ConfigurationError when the stack does not run."""
        state = self._state()
        return -1 if state is None else state.restarts

    @property
    def alive(self) -> bool:
        """Whether it runs. Raises ConfigurationError when the stack does not run."""
        state = self._state()
        return state is not None and state.process.alive()

    def _send(self, number: int) -> None:
        if state := self._state():
            state.process.send(number)

    def kill(self) -> None:
        """SIGKILL."""
        self.ordered += 1
        self._send(signal.SIGKILL)

    def kill_after(self, callbacks: int) -> None:
        """SIGKILL after about as long as so many callbacks take."""
        later(callbacks / CALLBACKS_PER_SECOND, self.kill)

    def terminate(self) -> None:
        """SIGTERM."""
        self.ordered += 1
        self._send(signal.SIGTERM)

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after ``seconds`` for the same process."""
        if state := self._state():
            state.process.send(signal.SIGSTOP)
            later(seconds, state.process.send, signal.SIGCONT)

    def resume(self) -> None:
        """SIGCONT: a stopped process does not see the SIGTERM that ends it."""
        self._send(signal.SIGCONT)

    def skew(self, seconds: float) -> None:
        """The clock of a real process cannot be changed alone; its faults are not in the scenario."""

    def end_loop(self, choice: float) -> None:
        """No loop of a real process can be ended alone; the fault is not in the scenario."""

    def unready(self) -> list[str]:
        """Why the process is not ready."""
        try:
            with urllib.request.urlopen(f"{self._url}/readyz", timeout=REQUEST_SECONDS):
                return []
        except urllib.error.HTTPError as error:
            return [error.read().decode(errors="replace")[:500]]
        except OSError as error:
            return [str(error)]

    def status(self) -> Mapping[str, Any]:
        """What the service says of itself; empty without an answer."""
        try:
            with urllib.request.urlopen(f"{self._url}/status", timeout=REQUEST_SECONDS) as answer:
                return dict(json.loads(answer.read()))
        except (OSError, ValueError):
            return {}
