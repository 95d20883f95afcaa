"""Time, randomness and the machine: everything in this process reads the simulated clock and one seeded generator.

Our own code takes its clock, randomness and ids as parameters. Client libraries do not, and a service names itself
after its host and process id, so the functions that tell these are replaced, in the modules that define them and in
every module that imported them by name. ``find_places`` is called once, when everything is imported; ``install`` once,
in the child process of a run.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any, NoReturn

from services.launcher.catalogue import read
from shared.runtime import child
from simulation.loop import SimulatedLoop

WALL_START_SECONDS = 1_790_000_000.0
"""The wall time at virtual time zero."""


REPLACED: tuple[Callable[..., Any], ...] = (
    time.time,
    time.time_ns,
    time.monotonic,
    time.monotonic_ns,
    time.perf_counter,
    time.sleep,
    os.urandom,
    os.getpid,
    socket.gethostname,
    uuid.uuid4,  # noqa: TID251  # replaced here
    uuid.uuid1,
)


class BlockingCall(RuntimeError):
    """The code under simulation would have blocked the process."""


_places: list[tuple[dict[str, Any], str, Callable[..., Any]]] = []
"""Where a function of ``REPLACED`` is: the names of a module, the name, and the function."""


def find_places() -> None:
    """Look through all modules for what ``install`` replaces, so that not every run has to."""
    wanted = {id(function) for function in REPLACED}
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not names or module.__name__.startswith(("simulation.", "asyncio")):
            continue
        _places.extend((names, name, value) for name, value in names.items() if id(value) in wanted)


def install(loop: SimulatedLoop, source: random.Random) -> None:
    """Replace clocks, sources of randomness and who the process is. ``source`` gives all random bytes of libraries."""

    def wall() -> float:
        return WALL_START_SECONDS + loop.time() + loop.owner().skew_seconds

    replaced: dict[Any, Callable[..., Any]] = {
        time.time: wall,
        time.time_ns: lambda: int(wall() * 1e9),
        time.monotonic: loop.time,
        time.monotonic_ns: lambda: int(loop.time() * 1e9),
        time.perf_counter: loop.time,
        time.sleep: _blocking,
        os.urandom: source.randbytes,
        os.getpid: lambda: 1,  # as in a container, whose host is its pod
        socket.gethostname: lambda: loop.owner().name,
        uuid.uuid4: lambda: uuid.UUID(int=source.getrandbits(128), version=4),  # noqa: TID251  # replaced here
        uuid.uuid1: lambda *_: uuid.UUID(int=source.getrandbits(128), version=1),
    }
    for names, name, original in _places:
        names[name] = replaced[original]
    random._urandom = source.randbytes  # type: ignore[attr-defined]  # what SystemRandom and secrets read
    random.seed(source.getrandbits(64))
    child.in_child = _inline
    for module in list(sys.modules.values()):
        if getattr(module, "in_child", None) is not None and module is not child:
            module.in_child = _inline  # type: ignore[attr-defined]
    _install_dates(wall)


def _install_dates(wall: Callable[[], float]) -> None:
    """``datetime.now`` and ``utcnow`` of every module that imported the class."""
    real: Any = datetime.datetime

    class SimulatedDatetime(real):  # type: ignore[misc]
        """A datetime whose present is the simulated one."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.fromtimestamp(wall(), tz) if tz else real.utcfromtimestamp(wall())

        @classmethod
        def utcnow(cls) -> Any:
            return real.utcfromtimestamp(wall())

    prefixes = ("moto", "botocore", "aiobotocore", "local.aws", "werkzeug")
    for module in list(sys.modules.values()):
        if not getattr(module, "__name__", "").startswith(prefixes):
            continue
        if getattr(module, "datetime", None) is real:
            module.datetime = SimulatedDatetime  # type: ignore[attr-defined]


def _blocking(seconds: float = 0.0) -> NoReturn:
    raise BlockingCall(f"time.sleep({seconds}) in simulated time")


async def _inline(work: Callable[[Any], Any], argument: Any, bounds: object) -> Any:
    """What ``in_child`` does, without a child process: here, on the loop, with its calls to AWS in simulated time."""
    del bounds
    if work is read.read_catalogue:
        return await read._read(argument)  # read_catalogue would run a loop of its own
    return await asyncio.to_thread(work, argument)
