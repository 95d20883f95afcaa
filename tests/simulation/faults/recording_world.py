"""A world that records which fault methods were called and passes AWS faults to a real emulator's control endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

Call = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]


@dataclass
class Recorder:
    """Records every method call under ``name``."""

    name: str
    calls: list[Call]

    def __getattr__(self, method: str) -> Any:
        return partial(self._record, method)

    def _record(self, method: str, *positional: Any, **named: Any) -> None:
        self.calls.append((f"{self.name}.{method}", positional, tuple(sorted(named.items()))))


@dataclass
class RecordedProcess:
    """A process whose kill is immediate and which somebody starts again at once."""

    calls: list[Call]
    dies_by_itself: bool = True
    starts: int = 1
    alive: bool = True

    def kill_after(self, callbacks: int) -> None:
        self.calls.append(("process.kill_after", (callbacks,), ()))
        self.starts += self.dies_by_itself

    def kill(self) -> None:
        self.calls.append(("process.kill", (), ()))

    def terminate(self) -> None:
        self.calls.append(("process.terminate", (), ()))

    def pause(self, seconds: float) -> None:
        self.calls.append(("process.pause", (seconds,), ()))

    def skew(self, seconds: float) -> None:
        self.calls.append(("process.skew", (seconds,), ()))

    def status(self) -> Mapping[str, object]:
        return {"leading": True}

    def end_loop(self, choice: float) -> None:
        self.calls.append(("process.end_loop", (choice,), ()))


@dataclass
class RecordedAws:
    """Answers control requests through ``endpoint`` if there is one: (path, body) -> (status, JSON)."""

    calls: list[Call]
    endpoint: Any = None
    refused: list[bytes] = field(default_factory=list)

    def control(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append((f"aws.{path}", (dict(body),), ()))
        if self.endpoint is None:
            return {}
        status, answer = self.endpoint("POST", f"/_dovetail/{path}", {}, orjson.dumps(body))
        if status != 200:
            self.refused.append(answer)
        return orjson.loads(answer)  # type: ignore[no-any-return]

    def mix_messages(self, copies: int, seconds: float) -> None:
        self.calls.append(("aws.mix_messages", (copies, seconds), ()))


class RecordingWorld:
    """Fits ``FaultyWorld``."""

    def __init__(self, processes: tuple[str, ...], endpoint: Any = None) -> None:
        self.calls: list[Call] = []
        self.network: Any = Recorder("network", self.calls)
        self.redis: Any = Recorder("redis", self.calls)
        self.cluster: Any = Recorder("cluster", self.calls)
        self.trace: Any = Recorder("trace", self.calls)
        self.aws = RecordedAws(self.calls, endpoint)
        self.processes = {name: RecordedProcess(self.calls) for name in processes}

    def names(self) -> list[str]:
        """The recorded calls without their arguments."""
        return [name for name, _, _ in self.calls]
