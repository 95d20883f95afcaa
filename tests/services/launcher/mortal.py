"""A launcher that can be stopped dead before or after any of its side effects, and the count of these effects.

Death is for all of it: once one effect has died, every other call of this incarnation dies as well, as in a process
that was killed. What was already done stays done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

CHANGES = frozenset(
    {
        "create",
        "patch",
        "json_patch",
        "delete",
        "evict",
        "create_fleet",
        "terminate",
        "add",
        "publish",
    }
)


class Died(BaseException):
    """The process ends here: nobody handles this."""


@dataclass
class Life:
    """``dies_at``: number of the effect, from 1 on; None: it lives on."""

    dies_at: int | None = None
    after: bool = False
    """After the effect, not before it."""
    effects: list[str] = field(default_factory=list)
    dead: bool = False

    async def change(self, name: str, act: Callable[[], Awaitable[Any]]) -> Any:
        """One side effect."""
        self._check()
        self.effects.append(name)
        last = len(self.effects) == self.dies_at
        if last and not self.after:
            self._die()
        try:
            done = await act()
        finally:
            if last:
                self._die()
        self._check()
        return done

    def _die(self) -> None:
        self.dead = True
        raise Died

    def _check(self) -> None:
        if self.dead:
            raise Died


class Mortal:
    """Passes every call on to ``target``, as long as there is life."""

    def __init__(self, target: Any, life: Life, **parts: Any) -> None:
        self._target = target
        self._life = life
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found) or name not in CHANGES:
            return found

        async def act(*args: Any, **kwargs: Any) -> Any:
            return await self._life.change(name, lambda: found(*args, **kwargs))

        return act
