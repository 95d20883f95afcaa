"""Where the records of a scheduler are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ArchivePlace:
    """One scheduler of a cluster. ``address`` and ``endpoint_url``: as of ``open_store``; empty: it does not record."""

    address: str
    endpoint_url: str
    cluster: str
    shadow: bool = False
