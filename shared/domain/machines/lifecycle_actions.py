"""Termination lifecycle actions of auto scaling groups, as they stand in an annotation of the node: pure (INT-41).

The interruption service writes it and keeps the hooks waiting, the terminator reads until when the node is drained.
What stands there is all that either of them knows: a restart of both finds it. A group may have several hooks, each
with an event and a token of its own; the node is drained once and every hook is ended.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

MOST_HOOKS = 50
"""A group has no more."""


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """One hook that waits for us. ``ended``: how it was ended, empty while it waits."""

    name: str
    group: str
    token: str = ""
    heartbeat_seconds: float = 0.0
    """How often it is told to go on waiting; 0: never."""
    ended: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What tells one action from another."""
        return (self.group, self.name, self.token)


class LifecycleAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node's way out. ``at``: when it began; ``until``: when its pods are gone at the latest; both since the epoch.

    Without hooks the node is only drained: an agent on the node knows none, and may call nobody.
    """

    instance: str
    at: float
    until: float
    hooks: tuple[Hook, ...] = ()
    evict: bool = True
    """False: pods are only waited for, until they end by themselves."""

    @property
    def waiting(self) -> tuple[Hook, ...]:
        """Hooks that have not ended."""
        return tuple(hook for hook in self.hooks if not hook.ended)

    @property
    def is_over(self) -> bool:
        """All its hooks have ended."""
        return bool(self.hooks) and not self.waiting

    @property
    def text(self) -> str:
        """For the annotation."""
        return msgspec.json.encode(self).decode()


_DECODER = msgspec.json.Decoder(LifecycleAction)


def parse_lifecycle_action(text: str) -> LifecycleAction | None:
    """None for what we did not write."""
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        return None


def joined(held: LifecycleAction | None, new: LifecycleAction) -> LifecycleAction:
    """``held`` with the hooks of ``new`` that it lacks. The earlier end stands; one that is over makes room; one that
    evicts does so for all.
    """
    if held is None or held.instance != new.instance:
        return new
    if not held.hooks and held.until <= new.at:  # an agent's, of an earlier life of the instance
        return new
    known = {hook.identity for hook in held.hooks}
    added = tuple(hook for hook in new.hooks if hook.identity not in known)
    if held.is_over:
        return new if added else held
    evict = held.evict or new.evict
    if not added:
        return replace(held, evict=evict)
    hooks = (*held.hooks, *added)[:MOST_HOOKS]
    return replace(held, until=min(held.until, new.until), hooks=hooks, evict=evict)


def ended(held: LifecycleAction, hook: Hook, how: str) -> LifecycleAction:
    """``held`` with this hook ended; the first end stands."""
    hooks = tuple(
        replace(one, ended=how) if one.identity == hook.identity and not one.ended else one
        for one in held.hooks
    )
    return replace(held, hooks=hooks)
