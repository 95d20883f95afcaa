"""Records of namespaces for the planner: affinity terms select namespaces by their labels (SCH-83)."""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression

NAME_LABEL = "kubernetes.io/metadata.name"
"""Kubernetes sets this label on every namespace; its value is the name."""


class Namespace(msgspec.Struct, frozen=True, omit_defaults=True):
    """One Namespace."""

    uid: str
    name: str
    labels: dict[str, str] = {}


class NamespaceSelector(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A label selector of namespaces that is not empty; an empty selector is stored as "all namespaces"."""

    match_labels: dict[str, str] = {}
    expressions: tuple[Expression, ...] = ()
