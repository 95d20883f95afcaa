"""Kubernetes objects -> mirror records: one converter per kind, no I/O.

Only what scheduling needs travels to Redis; environment variables, commands and secrets never do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from shared.api.machines import parse_machine
from shared.api.node_templates import parse_node_template
from shared.api.nodes import parse_node
from shared.api.pods import parse_daemon_set, parse_pod
from shared.api.provisioners import parse_provisioner
from shared.errors import InvalidObject
from shared.kube import resources
from shared.kube.resources import Resource

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Converted:
    """A record, or the reasons why there is none."""

    record: msgspec.Struct | None
    faults: tuple[str, ...] = ()


def _strict(
    parse: Callable[[Json], tuple[msgspec.Struct, list[str]]],
) -> Callable[[Json], Converted]:
    def convert(raw: Json) -> Converted:
        record, faults = parse(raw)
        return Converted(None, tuple(faults)) if faults else Converted(record)

    return convert


def _lenient(parse: Callable[[Json], msgspec.Struct]) -> Callable[[Json], Converted]:
    def convert(raw: Json) -> Converted:
        try:
            return Converted(parse(raw))
        except InvalidObject as error:
            return Converted(None, (str(error),))

    return convert


@dataclass(frozen=True)
class Kind:
    """One watched kind: its name in the mirror, where it is served, how it is read."""

    name: str
    resource: Resource
    convert: Callable[[Json], Converted]


KINDS = (
    Kind("pods", resources.PODS, _lenient(parse_pod)),
    Kind("nodes", resources.NODES, _lenient(parse_node)),
    Kind("daemonsets", resources.DAEMON_SETS, _lenient(parse_daemon_set)),
    Kind("nodepools", resources.PROVISIONERS, _strict(parse_provisioner)),
    Kind("nodeclasses", resources.AWS_NODE_TEMPLATES, _strict(parse_node_template)),
    Kind("machines", resources.MACHINES, _lenient(parse_machine)),
)


def object_key(raw: Json) -> str:
    """``namespace/name``, or ``name`` for what has no namespace."""
    meta = raw["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
