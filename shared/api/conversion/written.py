"""A document created from a domain record, with notes about fields without an equivalent in its API generation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.api.faults import Fault


@dataclass(frozen=True)
class Written:
    """``document`` is ready for an API server; ``notes`` name the fields of the record that it lacks, and why."""

    document: dict[str, Any]
    notes: tuple[Fault, ...] = ()
    source: int = -1
    """Index of the input document that it was created from."""
