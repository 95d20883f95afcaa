"""Termination lifecycle actions of auto scaling groups, in an annotation of the node (INT-41). Pure.

The interruption service writes the annotation and sends the hooks' heartbeats; the terminator reads the end of the
drain. The annotation is their only state, so it survives a restart of both. A group may have several hooks, each with
its own event and token; the node is drained once, and every hook is completed.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

MOST_HOOKS = 50
"""AWS's limit of hooks per group."""


class Hook(msgspec.Struct, frozen=True, omit_defaults=True):
    """One hook of the action. ``ended``: the result with which it was completed; empty while it waits."""

    name: str
    group: str
    token: str = ""
    heartbeat_seconds: float = 0.0
    """Interval of its heartbeats; 0: none."""
    ended: str = ""

    @property
    def identity(self) -> tuple[str, str, str]:
        """The unique identity of the hook's action."""
        return (self.group, self.name, self.token)


class LifecycleAction(msgspec.Struct, frozen=True, omit_defaults=True):
    """The termination of a node. ``at``: its start; ``until``: the latest end of its drain; seconds since the epoch.

    Without hooks the node is only drained: an agent on the node neither knows the hooks nor may complete them.
    """

    instance: str
    at: float
    until: float
    hooks: tuple[Hook, ...] = ()
    evict: bool = True
    """False: pods are not evicted; the drain waits until they end."""

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
        """The action as the value of the annotation."""
        return msgspec.json.encode(self).decode()


_DECODER = msgspec.json.Decoder(LifecycleAction)


def parse_lifecycle_action(text: str) -> LifecycleAction | None:
    """The action in the annotation; None for an invalid value."""
    try:
        return _DECODER.decode(text)
    except msgspec.DecodeError:
        return None


def joined(held: LifecycleAction | None, new: LifecycleAction) -> LifecycleAction:
    """``held`` with the new hooks of ``new``. The earlier end counts, and ``evict`` if one of both has it; an action
    whose hooks have all ended is replaced.
    """
    if held is None or held.instance != new.instance:
        return new
    if (
        not held.hooks and held.until <= new.at
    ):  # from an agent, before the instance was stopped and started
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
    """``held`` with this hook ended; a hook that has ended keeps its result."""
    hooks = tuple(
        replace(one, ended=how) if one.identity == hook.identity and not one.ended else one
        for one in held.hooks
    )
    return replace(held, hooks=hooks)
