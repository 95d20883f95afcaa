"""Taints as pools and machines of both generations write them (P-03, P-18, NP-05)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from shared.api.core.label_syntax import (
    LABEL_VALUE_FORM,
    cel_is_label_value,
    cel_is_qualified_name,
    is_label_value,
    is_qualified_name,
)
from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.domain.expressions import Taint


def _check_taint(raw: Json) -> Iterable[tuple[Path, str]]:
    key, value = raw.get("key"), raw.get("value")
    if isinstance(key, str) and not is_qualified_name(key):
        yield ("key",), f"{key[:80]!r} is not a qualified name such as example.com/team"
    if isinstance(value, str) and not is_label_value(value):
        yield ("value",), f"{value[:40]!r} is not a label value: {LABEL_VALUE_FORM}"
    if {"key", "effect"} - raw.keys():
        yield (), "a taint needs key and effect in one list item; value is optional"


class NodeTaint(ApiModel):
    """A taint: pods that do not tolerate it are not placed on the node."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "key must be a qualified name and value a label value",
            f"{cel_is_qualified_name('self.key')} && "
            f"(!has(self.value) || {cel_is_label_value('self.value')})",
            _check_taint,
        ),
    )

    key: Annotated[str, Field(min_length=1, max_length=316)]
    """The taint's key, such as example.com/special."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What happens to pods that do not tolerate the taint."""
    time_added: (
        Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})] | None
    ) = None
    """Of taints that were copied from a node. Without effect: the kubelet adds them when the node registers."""


class V1Taint(NodeTaint):
    """A taint: pods that do not tolerate it are not placed on the node."""

    value: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """The taint's value; optional."""


def check_unique(raw: Json) -> Iterable[tuple[Path, str]]:
    """P-18: ``taints`` and ``startupTaints`` of one object together hold each pair of key and effect once."""
    seen: set[tuple[str, str]] = set()
    for name in ("taints", "startupTaints"):
        listed = raw.get(name)
        for index, taint in enumerate(listed if isinstance(listed, list) else []):
            pair = _pair(taint)
            if pair is None:
                continue
            if pair in seen:
                yield (name, index), f"{pair[0]}:{pair[1]} is a duplicate; remove one"
            seen.add(pair)


def _cel_unique() -> str:
    within = " && ".join(
        f"(!has(self.{name}) || self.{name}.all(a, self.{name}.exists_one(b, {_SAME})))"
        for name in ("taints", "startupTaints")
    )
    return (
        f"{within} && (!has(self.taints) || !has(self.startupTaints) || "
        f"!self.taints.exists(a, self.startupTaints.exists(b, {_SAME})))"
    )


_SAME = "a.key == b.key && a.effect == b.effect"
UNIQUE_RULE = Rule(
    "taints and startupTaints must not repeat a pair of key and effect",
    _cel_unique(),
    check_unique,
)


def _pair(taint: object) -> tuple[str, str] | None:
    if not isinstance(taint, dict):
        return None
    key, effect = taint.get("key"), taint.get("effect")
    return (key, effect) if isinstance(key, str) and isinstance(effect, str) else None


def taints_of(written: Iterable[NodeTaint]) -> tuple[Taint, ...]:
    """The taints as domain records."""
    return tuple(Taint(one.key, one.effect, one.value or "") for one in written)
