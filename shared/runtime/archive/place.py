"""Where the records of a scheduler are."""

from __future__ import annotations

from dataclasses import dataclass

from shared.simulation.decisions.names import MAIN


@dataclass(frozen=True)
class ArchivePlace:
    """One scheduler of a cluster. ``address`` and ``endpoint_url``: as of ``open_store``."""

    address: str
    """Empty: it does not record."""
    endpoint_url: str
    cluster: str
    role: str = MAIN
    """As of ``role_of``."""
