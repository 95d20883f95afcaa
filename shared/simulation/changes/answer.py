"""The JSON document about one pod, for ``dovetail explain pod`` and ``POST /explain``."""

from __future__ import annotations

from typing import Any

from shared.simulation.changes.edits import Edit
from shared.simulation.changes.search import PodExplanation


def document_of(found: PodExplanation) -> dict[str, Any]:
    """``changes``: the smallest change of one pool; all its edits are needed. Amounts are Kubernetes quantities."""
    return {
        "pod": found.pod.key,
        "state": found.state,
        "node": found.pod.node_name,
        "verdict": found.verdict,
        "changes": [_edit(edit) for edit in found.smallest],
        "pools": [
            {"pool": one.pool, "lacks": one.lacks, "changes": [_edit(edit) for edit in one.edits]}
            for one in found.pools
        ],
        "notExamined": list(found.unexamined),
    }


def _edit(edit: Edit) -> dict[str, Any]:
    return {
        "object": edit.object,
        "field": edit.field,
        "action": edit.action,
        "value": edit.value,
        "text": edit.text,
    }
