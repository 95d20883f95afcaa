"""How the lines of the terminal are shared out. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence


def shares(wants: Sequence[int], room: int) -> list[int]:
    """What each gets of ``room`` lines: as much as it wants while there is enough, otherwise equal parts.

    What a small one leaves goes to the others; single lines that are left over go to the first ones.
    """
    given = [0] * len(wants)
    while room > 0 and (short := [at for at, want in enumerate(wants) if given[at] < want]):
        each = max(1, room // len(short))
        for at in short[:room]:
            more = min(each, wants[at] - given[at])
            given[at] += more
            room -= more
    return given


def shares_in_turn(first: Sequence[int], then: Sequence[int], room: int) -> list[int]:
    """As ``shares`` for the sums of both wants, but nothing is given to ``then`` before ``first`` is satisfied."""
    given = shares(first, room)
    more = shares(then, room - sum(given))
    return [one + other for one, other in zip(given, more, strict=True)]


def cut(wanted: int, room: int) -> tuple[int, int]:
    """(shown, left out) of ``wanted`` lines in ``room``. The line that counts what is left out is one of ``room``."""
    if wanted <= room:
        return wanted, 0
    shown = max(0, room - 1)
    return shown, wanted - shown
