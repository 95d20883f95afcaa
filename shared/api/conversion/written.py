"""A document made from a domain record, with what could not be said in that generation of the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.api.faults import Fault


@dataclass(frozen=True)
class Written:
    """``document`` is ready for an API server; ``notes`` name fields of the record that it cannot hold, and why."""

    document: dict[str, Any]
    notes: tuple[Fault, ...] = ()
    source: int = -1
    """Which of the documents given it was made from."""
