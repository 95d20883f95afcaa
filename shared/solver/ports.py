"""Host ports: two pods on one node must not use the same one (SCH-90)."""

from __future__ import annotations

from collections.abc import Iterable

HostPort = tuple[str, str, int]
"""(protocol, host ip, port)."""

_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # the addresses that mean every address


def first_conflict(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> HostPort | None:
    """The first wanted port that is taken on the same address, or where either side uses every address."""
    held = tuple(taken)
    if not held:
        return None
    for port in wanted:
        if any(_collide(port, other) for other in held):
            return port
    return None


def _collide(left: HostPort, right: HostPort) -> bool:
    if (left[0], left[2]) != (right[0], right[2]):
        return False
    return left[1] == right[1] or left[1] in _ANY_ADDRESS or right[1] in _ANY_ADDRESS
