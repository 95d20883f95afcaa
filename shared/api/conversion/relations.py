"""Objects of v1beta1 among others, rewritten as v1 together, because they depend on each other (MAP-03).

Kubelet settings of a NodePool go to its EC2NodeClass, and a NodeClaim gets the lifetime of its NodePool. Objects of
other kinds are returned unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from shared.api.conversion.v1beta1_kinds import (
    NODE_CLAIM,
    NODE_CLASS,
    NODE_POOL,
    POOL_KUBELET,
    is_v1beta1,
)
from shared.api.conversion.written import Written
from shared.api.faults import Fault
from shared.api.schema.scalars import NEVER
from shared.domain import labels as keys

if TYPE_CHECKING:
    from shared.api.conversion.v1beta1 import Upgraded

Json = Mapping[str, Any]
DEFAULT_LIFETIME = "720h"


@dataclass
class _Known:
    """What one object of v1beta1 may need to know of the others. Keys are names."""

    classes: set[str] = field(default_factory=set)
    kubelets: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The different kubelet settings of the pools of each class."""
    lifetimes: dict[str, object] = field(default_factory=dict)
    """``expireAfter`` of each pool."""


def without_v1beta1(documents: Sequence[Any]) -> list[Written]:
    """The documents in the same order, those of v1beta1 as v1 with notes about what they lack. Never raises."""
    old = [at for at, one in enumerate(documents) if is_v1beta1(one)]
    made = _upgraded(documents, old) if old else {}
    known = _Known()
    for at, document in enumerate(documents):
        if at in made:
            _learn(known, documents[at], made[at])
        elif isinstance(document, Mapping) and document.get("kind") == "NodePool":
            _learn_lifetime(known, document)
    return [
        _written(document, made[at], known, at) if at in made else Written(document, source=at)
        for at, document in enumerate(documents)
    ]


def _upgraded(documents: Sequence[Any], old: Iterable[int]) -> dict[int, Upgraded]:
    # Imported here: it loads the schemas of v1, which inputs without v1beta1 may not need.
    from shared.api.conversion.v1beta1 import upgraded

    return {at: upgraded(documents[at]) for at in old}


def _learn(known: _Known, document: Any, made: Upgraded) -> None:
    kind = (document["apiVersion"], document["kind"])
    if kind == NODE_CLASS:
        known.classes.add(_name(document))
    if kind == NODE_POOL:
        _learn_lifetime(known, made.document)
        settings = known.kubelets.setdefault(_class_of(made.document), [])
        if made.kubelet not in settings:
            settings.append(made.kubelet)


def _learn_lifetime(known: _Known, pool: Json) -> None:
    template = _inside(pool, "spec", "template", "spec")
    known.lifetimes[_name(pool)] = template.get("expireAfter") or DEFAULT_LIFETIME


def _written(document: Any, made: Upgraded, known: _Known, at: int) -> Written:
    kind = (document["apiVersion"], document["kind"])
    if kind == NODE_CLASS:
        return Written(_with_kubelet(made.document, known), made.notes, at)
    if kind == NODE_CLAIM:
        changed, notes = _with_lifetime(made.document, known)
        return Written(changed, (*made.notes, *notes, *_launched_with(made)), at)
    return Written(made.document, (*made.notes, *_kubelet_notes(made, known)), at)


def _with_kubelet(document: dict[str, Any], known: _Known) -> dict[str, Any]:
    settings = known.kubelets.get(_name(document), [])
    spec = document.get("spec")
    if len(settings) != 1 or not settings[0] or not isinstance(spec, Mapping):
        return document
    return {**document, "spec": {**spec, "kubelet": settings[0]}}


def _kubelet_notes(made: Upgraded, known: _Known) -> Iterable[Fault]:
    node_class = _class_of(made.document)
    if not made.kubelet:
        return
    shown = json.dumps(made.kubelet, ensure_ascii=False)
    if node_class not in known.classes:
        where = f"belongs to spec.kubelet of EC2NodeClass {node_class}, which is not in the input"
        yield Fault(POOL_KUBELET, f"{where}: {shown}")
    elif len(known.kubelets[node_class]) > 1:
        where = f"pools of EC2NodeClass {node_class} have different settings"
        yield Fault(
            POOL_KUBELET,
            f"{where}; create a separate class for this pool, with spec.kubelet: {shown}",
        )


def _with_lifetime(document: dict[str, Any], known: _Known) -> tuple[dict[str, Any], list[Fault]]:
    """A claim of v1beta1 has no lifetime of its own: it is that of its pool. Unknown: it does not expire."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return document, []
    pool = _inside(document, "metadata", "labels").get(keys.NODE_POOL)
    lifetime = known.lifetimes.get(pool) if isinstance(pool, str) else None
    note = Fault(
        ("spec", "expireAfter"), f"{NEVER}, because its NodePool is not in the input; set it there"
    )
    return {**document, "spec": {**spec, "expireAfter": lifetime or NEVER}}, (
        [] if lifetime else [note]
    )


def _launched_with(made: Upgraded) -> Iterable[Fault]:
    if made.kubelet:
        yield Fault(("spec", "kubelet"), "was applied when the instance was launched; left out")


def _class_of(pool: Json) -> str:
    return _name({"metadata": _inside(pool, "spec", "template", "spec", "nodeClassRef")})


def _name(document: Json) -> str:
    name = _inside(document, "metadata").get("name")
    return name if isinstance(name, str) else ""


def _inside(document: Json, *path: str) -> Json:
    """The object at a path; an empty one where there is none."""
    found: Any = document
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
