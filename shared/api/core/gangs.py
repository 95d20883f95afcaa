"""Which gang a pod belongs to, by its labels and annotations (SCH-114).

Read are ours, Kueue's groups of plain pods, and the label of scheduler-plugins' PodGroups, which says no size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.api.shapes import mapping, text
from shared.domain import labels as keys
from shared.errors import InvalidObject

Json = Mapping[str, Any]
KUEUE_GROUP, KUEUE_COUNT = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
POD_GROUP = "scheduling.x-k8s.io/pod-group"
LARGEST_GANG = 5000
_SIZE = re.compile(r"[0-9]{1,5}")


def read_gang(meta: Json) -> tuple[str, int]:
    """(name, number of pods; 0: not said); ("", 0) for a pod of no gang. Raises InvalidObject."""
    labels = mapping(meta.get("labels"), "metadata.labels")
    annotations = mapping(meta.get("annotations"), "metadata.annotations")
    own = annotations.get(keys.GANG) or labels.get(keys.GANG)
    if own:
        name = text(own, f"metadata.annotations[{keys.GANG}]")
        return name, _size(annotations, keys.GANG_SIZE)
    group = labels.get(KUEUE_GROUP)
    if group:
        return text(group, f"metadata.labels[{KUEUE_GROUP}]"), _size(annotations, KUEUE_COUNT)
    return text(labels.get(POD_GROUP), f"metadata.labels[{POD_GROUP}]"), 0


def _size(annotations: Json, name: str) -> int:
    written = annotations.get(name)
    if written is None:
        return 0
    is_count = isinstance(written, str) and _SIZE.fullmatch(written) is not None
    if not is_count or not 1 <= int(written) <= LARGEST_GANG:
        raise InvalidObject(
            f'must be a number of pods from 1 to {LARGEST_GANG}, such as "8"',
            field=f"metadata.annotations[{name}]",
        )
    return int(written)
