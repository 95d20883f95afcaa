"""Machines that this scheduler created and the mirror does not show yet.

Without them a second plan, made before the watcher saw the first one's Machines, would buy twice (BAT-05). One is
dropped when the mirror shows it, or when the mirror is at or past the version that the API server gave it and does not
show it: then it is gone. Never by the clock: a mirror may stand still for as long as it likes. There are no more of
them than were planned since it stood still, and the planner plans nothing when it notices that (``sync``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.domain.machines import Machine
from shared.kube.machines import Stored
from shared.kube.resources import MACHINES, NODE_CLAIMS
from shared.mirror import MirrorReader

_PLURALS = {one.kind: one.plural for one in (MACHINES, NODE_CLAIMS)}


@dataclass
class OwnMachines:
    """By key, as the API server answered."""

    reader: MirrorReader
    _held: dict[str, Stored] = field(default_factory=dict)

    def assume(self, stored: Stored) -> None:
        """The API server has it."""
        self._held[stored.machine.key] = stored

    def with_shown(self, shown: Mapping[str, Machine]) -> dict[str, Machine]:
        """What the mirror shows by key, and ours."""
        self._held = {
            key: stored
            for key, stored in self._held.items()
            if not self._is_settled(stored, shown.get(key))
        }
        return {**shown, **{key: stored.machine for key, stored in self._held.items()}}

    def forget(self) -> None:
        """As after a restart."""
        self._held.clear()

    def _is_settled(self, stored: Stored, shown: Machine | None) -> bool:
        if shown is not None and shown.uid == stored.machine.uid:
            return True
        return self.reader.has_reached(_PLURALS[stored.machine.kind], stored.version)
