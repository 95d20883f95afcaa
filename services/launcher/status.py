"""What the launcher says of itself on its status page, and what it lacks to be ready."""

from __future__ import annotations

from dataclasses import dataclass

from services.launcher.catalogue.publish import Catalogues
from services.launcher.garbage_collection.held_deletions import HeldDeletions


@dataclass(frozen=True)
class Status:
    """Read anew for each request."""

    catalogues: Catalogues
    deletions: HeldDeletions

    def page(self) -> dict[str, object]:
        """The launcher's part of ``/status``."""
        held = self.catalogues.held
        return {
            "catalogue": held.generation if held else None,
            "instanceTypes": held.types if held else 0,
            "catalogueProblem": self.catalogues.problem,
            "deletionsHeld": sorted(set(self.deletions.held.values())),
        }

    def missing(self) -> list[str]:
        """Why it is not ready, in words; empty when it is."""
        if self.catalogues.held:
            return []
        return ["the catalogue of instance types is not read yet"]
