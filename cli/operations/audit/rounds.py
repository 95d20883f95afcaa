"""Readings one after the other: what two of them must show, and what changed between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cli.operations.audit.catalogue import Verdict, confirmed, judged, needs_second
from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.picture import Reading

Read = Callable[[], Awaitable[Reading]]
Pause = Callable[[float], Awaitable[object]]


class Audit(NamedTuple):
    """One judgement: the reading that it is by, and every promise."""

    reading: Reading
    verdicts: list[Verdict]


@dataclass(frozen=True)
class Change:
    """A promise that broke for an object, or holds again for it, or cannot be judged any more (``found``: why)."""

    at: float
    change: Literal["broken", "holds again", "not judged", "judged again"]
    promise: str
    finding: Finding | None = None
    why: str = ""


async def audited(read: Read, graces: Graces, pause: Pause) -> Audit:
    """By one reading; by two when the first shows something that two must show. Raises DovetailError."""
    reading = await read()
    first = judged(reading, graces)
    if not needs_second(first):
        return Audit(reading, first)
    await pause(graces.apart)
    reading = await read()
    return Audit(reading, confirmed(first, judged(reading, graces)))


async def watched(
    read: Read, graces: Graces, pause: Pause, *, seconds: float
) -> AsyncIterator[tuple[Audit, list[Change]]]:
    """Each reading's judgement, and what changed since the one before, for so many seconds by the API server's clock.

    The first comes as from ``audited``. Raises DovetailError.
    """
    reading = await read()
    begun, before = reading.at, judged(reading, graces)
    known: list[Verdict] = []
    if not needs_second(before):
        known = before
        yield Audit(reading, before), changes([], before, reading.at)
    while reading.at - begun < seconds or not known:
        await pause(graces.apart)
        reading = await read()
        now = judged(reading, graces)
        verdicts = confirmed(before, now)
        yield Audit(reading, verdicts), changes(known, verdicts, reading.at)
        before, known = now, verdicts


def changes(before: list[Verdict], now: list[Verdict], at: float) -> list[Change]:
    """What broke, what holds again, and what cannot be judged. What could not be judged before is not said again."""
    known = {one.promise: one for one in before}
    found: list[Change] = []
    for verdict in now:
        old = known.get(verdict.promise, Verdict(verdict.promise))
        found += _between(old, verdict, at)
    return found


def _between(old: Verdict, new: Verdict, at: float) -> list[Change]:
    if new.unread:
        same = bool(old.unread)
        return [] if same else [Change(at, "not judged", new.promise, why=new.unread)]
    found = [Change(at, "judged again", new.promise)] if old.unread else []
    was = {(one.subject, one.version): one for one in old.broken}
    now = {(one.subject, one.version): one for one in new.broken}
    found += [Change(at, "broken", new.promise, one) for key, one in now.items() if key not in was]
    return found + [
        Change(at, "holds again", new.promise, one) for key, one in was.items() if key not in now
    ]
