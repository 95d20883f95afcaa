"""A namespace as the planner needs it: affinity terms choose namespaces by their labels (SCH-83)."""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression

NAME_LABEL = "kubernetes.io/metadata.name"
"""Kubernetes puts this label on every namespace; its value is the name."""


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Namespace."""

    uid: str
    name: str
    labels: dict[str, str] = {}


class NamespaceSelector(msgspec.Struct, frozen=True, omit_defaults=True):
    """A label selector over namespaces that is not empty; an empty one means all and needs no labels."""

    match_labels: dict[str, str] = {}
    expressions: tuple[Expression, ...] = ()
