"""What an invariant is. Both kinds answer with sentences that say what is wrong; none means that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World


class Safety(Protocol):
    """Something that is never wrong: checked after every event of its ``kinds``."""

    name: str
    kinds: tuple[str, ...]

    def check(self, event: Event, world: World) -> list[str]:
        """What is wrong after this event. Keeps what later events are judged by; changes nothing else."""
        ...


class Liveness(Protocol):
    """Something that comes true once no fault happens any more: asked again and again in the quiet end of a run."""

    name: str

    def check(self, world: World) -> list[str]:
        """What is not true yet."""
        ...
