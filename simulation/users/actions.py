"""What people do to a cluster, as records: made before the run, so a run can be repeated with fewer of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
SHOWN_CHARACTERS = 60
"""Of one value of a patch."""


class What(StrEnum):
    """The kinds of actions."""

    APPLY = "apply"
    PATCH = "patch"
    SCALE = "scale"
    DELETE = "delete"
    DELETE_PODS = "delete pods"
    DELETE_NODE = "delete node"
    DELETE_MACHINE = "delete machine"
    DRAIN_NODE = "drain node"
    CORDON_NODE = "cordon node"
    UNCORDON_NODES = "uncordon nodes"
    TERMINATE_INSTANCE = "terminate instance"
    STOP_INSTANCE = "stop instance"
    RESERVE = "reserve"


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a person. ``at_seconds``: since the start of the run.

    ``kind`` (plural of a resource) and ``name`` name an object; ``body`` is a manifest or a merge patch. Nodes,
    machines and instances have no name before the run: ``choice`` (0 to 1) chooses among those that are there.
    """

    at_seconds: float
    what: What
    kind: str = ""
    name: str = ""
    body: Json = field(default_factory=dict, hash=False)
    choice: float = 0.0
    until_done: bool = False
    """Repeated while it fails, within bounds: what comes after the run counts on it."""

    @property
    def text(self) -> str:
        """The action for people, in the words of kubectl where it has any."""
        match self.what:
            case What.SCALE:
                return f"scale {self.kind} {self.name} to {self.body['spec']['replicas']}"
            case What.PATCH:
                return f"patch {self.kind} {self.name}: {_leaves(self.body)}"
            case What.APPLY | What.DELETE:
                return f"{self.what} {self.kind} {self.name}"
            case What.DELETE_PODS:
                return f"delete the pods of {self.name}"
            case What.UNCORDON_NODES:
                return "uncordon every node"
            case What.RESERVE:
                return f"reserve {self.body['count']} instances for {self.body['seconds']} s"
            case _:
                return f"{self.what} {self.choice:.3f} of the way through the list"

    def __str__(self) -> str:
        return f"{self.at_seconds:8.2f} s  {self.text}"


def _leaves(body: Json, path: str = "") -> str:
    """The fields of a patch with their values, ``spec.weight=3``."""
    found = []
    for key, value in body.items():
        here = f"{path}.{key}" if path else key
        nested = isinstance(value, dict) and value
        found.append(_leaves(value, here) if nested else f"{here}={_short(value)}")
    return ", ".join(found)


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
