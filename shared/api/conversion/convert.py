"""Conversion of objects between the API generations (MAP-04).

Objects are converted relations because they depend on each other: kubelet settings belong to the Provisioner in
v1alpha5 and to the EC2NodeClass in v1. Settings without an equivalent are left out, with a note. An object without any
equivalent becomes an empty document with notes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from shared.api.conversion.relations import without_v1beta1
from shared.api.conversion.v1beta1_kinds import is_v1beta1
from shared.api.conversion.written import Written
from shared.api.faults import Fault
from shared.api.registry import CONFIG_MAP, identity, is_ours, title_of
from shared.api.v1.ec2_node_classes import ec2_node_class_object, parse_ec2_node_class
from shared.api.v1.node_pools import node_pool_object, parse_node_pool
from shared.api.v1alpha5.global_settings import parse_global_settings
from shared.api.v1alpha5.node_templates import node_template_object, parse_node_template
from shared.api.v1alpha5.provisioners import (
    inline_template,
    parse_provisioner,
    provisioner_object,
)
from shared.domain import labels as keys
from shared.domain.instance_types.expressions import parted
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import Budget, NodeClass, NodePool

Json = Mapping[str, Any]
GENERATIONS = (V1, V1ALPHA5)
NO_LIMIT = (Budget("100%"),)
"""The v1 budgets that have the meaning of v1alpha5, which has no budgets: any number of disruptions at once."""
NOT_KEPT = frozenset(
    {keys.POOL_HASH, keys.POOL_HASH_VERSION, keys.CLASS_HASH, keys.CLASS_HASH_VERSION}
    | {keys.PROVISIONER_HASH, keys.NODE_TEMPLATE_HASH, keys.HASHED_BY, keys.INLINE_ANNOTATION}
    | {"kubectl.kubernetes.io/last-applied-configuration"}
)
"""Annotations that are valid only for the original object."""


@dataclass(frozen=True)
class NodeIdentity:
    """The IAM identity of the nodes. v1 has no default, so a v1 class needs one of the two."""

    role: str = ""
    instance_profile: str = ""

    def __bool__(self) -> bool:
        return bool(self.role or self.instance_profile)


NOBODY = NodeIdentity()


@dataclass
class _Relations:
    """The relations between the objects of one conversion. Keys are names of node classes."""

    default_identity: NodeIdentity = NOBODY
    """For classes without a role and an instance profile."""

    users: dict[str, list[NodePool]] = field(default_factory=dict)
    """The Provisioners of each class."""
    classes: dict[str, NodeClass] = field(default_factory=dict)
    """The classes of the source generation."""


def convert(
    documents: Sequence[Json], to: str, identity_given: NodeIdentity = NOBODY
) -> list[Written]:
    """The objects converted to ``to`` (v1 or v1alpha5), in the same order.

    The objects must be without faults (``registry.check``). Objects of the target generation and of other kinds are
    returned unchanged, those of v1beta1 as objects of v1 first. ``identity_given`` is for v1 classes that would have
    no identity; without it, the default instance profile of a ConfigMap among the objects is used.
    """
    first = _without_v1beta1(documents)
    second = _between_generations([one.document for one in first], to, identity_given)
    return [replace(one, notes=(*first[one.source].notes, *one.notes)) for one in second]


def _without_v1beta1(documents: Sequence[Json]) -> list[Written]:
    """Each object; of v1beta1 the v1 object without what an API server wrote."""
    made = without_v1beta1(documents)
    taken = {_key(one) for one in documents}
    return [
        _with_name_conflict(_clean(one, documents[at]), taken) if is_v1beta1(documents[at]) else one
        for at, one in enumerate(made)
    ]


def _clean(written: Written, source: Json) -> Written:
    document = {key: value for key, value in written.document.items() if key != "status"}
    document["metadata"] = {
        name: value
        for name, value in document["metadata"].items()
        if name in ("name", "generateName")
    }
    return replace(
        _with_metadata(replace(written, document=document), source), source=written.source
    )


def _between_generations(
    documents: Sequence[Json], to: str, identity_given: NodeIdentity
) -> list[Written]:
    writers = _TO_V1 if to == V1 else _TO_V1ALPHA5
    relations = _relations_of(documents, to)
    relations.default_identity = identity_given or relations.default_identity
    chosen = [(one, writers.get(identity(one)) if is_ours(one) else None) for one in documents]
    taken = {_key(document) for document, writer in chosen if writer is None}
    found: list[Written] = []
    for at, (document, writer) in enumerate(chosen):
        if writer is None:
            found.append(Written(dict(document), source=at))
            continue
        for written in writer(document, relations):
            made = _with_metadata(_with_name_conflict(written, taken), document)
            found.append(replace(made, source=at))
            taken.add(_key(written.document))
    return found


def _key(document: Json) -> tuple[tuple[str, str], str]:
    return identity(document), title_of(document)


def _with_name_conflict(
    written: Written, taken: Collection[tuple[tuple[str, str], str]]
) -> Written:
    if not written.document or _key(written.document) not in taken:
        return written
    note = Fault(
        ("metadata", "name"),
        "another object of this conversion has the same kind and name; rename one",
    )
    return replace(written, notes=(*written.notes, note))


def _relations_of(documents: Iterable[Json], to: str) -> _Relations:
    known = _Relations()
    for document in documents:
        if to == V1 and identity(document) == PROVISIONER:
            pool = parse_provisioner(document).require(title_of(document))
            known.users.setdefault(pool.node_class, []).append(pool)
            if inline := inline_template(document):
                _add_class(known, parse_node_template(inline).record)
        elif to == V1 and identity(document) == NODE_TEMPLATE:
            _add_class(known, parse_node_template(document).record)
        elif to == V1 and identity(document) == CONFIG_MAP and is_ours(document):
            known.default_identity = _default_identity(document)
        elif to == V1ALPHA5 and identity(document) == EC2_NODE_CLASS:
            _add_class(known, parse_ec2_node_class(document).record)
    return known


def _default_identity(settings: Json) -> NodeIdentity:
    profile = (settings.get("data") or {}).get("aws.defaultInstanceProfile")
    return NodeIdentity(instance_profile=str(profile or ""))


def _add_class(known: _Relations, node_class: NodeClass | None) -> None:
    if node_class is not None:
        known.classes[node_class.name] = node_class


def _with_metadata(written: Written, source: Json) -> Written:
    """``written`` with the labels and annotations of ``source``; other metadata of the API server is dropped."""
    metadata = written.document.get("metadata")
    if metadata is None:
        return written
    kept: dict[str, Any] = {}
    for name in ("labels", "annotations"):
        entries = source["metadata"].get(name) or {}
        left = {key: value for key, value in entries.items() if key not in NOT_KEPT}
        kept |= {name: left} if left else {}
    return replace(written, document={**written.document, "metadata": {**metadata, **kept}})


def _provisioner_to_v1(document: Json, relations: _Relations) -> Iterable[Written]:
    pool = parse_provisioner(document).require(title_of(document))
    if inline := inline_template(document):
        yield from _node_template_to_v1(inline, relations)
    written = node_pool_object(msgspec.structs.replace(pool, kubelet={}))
    yield Written(written.document, (*written.notes, *_kubelet_notes(pool, relations)))


def _node_template_to_v1(document: Json, relations: _Relations) -> Iterable[Written]:
    node_class = parse_node_template(document).require(title_of(document))
    settings = _kubelet_variants(relations.users.get(node_class.name, []))
    if len(settings) == 1:
        node_class = msgspec.structs.replace(node_class, kubelet=settings[0])
    if not node_class.role and not node_class.instance_profile:
        nodes = relations.default_identity
        node_class = msgspec.structs.replace(
            node_class, role=nodes.role, instance_profile=nodes.instance_profile
        )
    yield ec2_node_class_object(node_class)


def _kubelet_variants(pools: Iterable[NodePool]) -> list[dict[str, object]]:
    """The different kubelet settings of the pools of one class."""
    different: list[dict[str, object]] = []
    for pool in pools:
        if (settings := _kubelet(pool)) not in different:
            different.append(settings)
    return different


def _kubelet(pool: NodePool) -> dict[str, object]:
    """The kubelet settings without containerRuntime, because v1 supports containerd only."""
    return {name: value for name, value in pool.kubelet.items() if name != "containerRuntime"}


def _kubelet_notes(pool: NodePool, relations: _Relations) -> Iterable[Fault]:
    at, settings = ("spec", "kubeletConfiguration"), _kubelet(pool)
    if pool.kubelet.get("containerRuntime") == "dockerd":
        yield Fault((*at, "containerRuntime"), "v1 supports containerd only; left out")
    if not settings:
        return
    shown = json.dumps(settings, ensure_ascii=False)
    if pool.node_class not in relations.classes:
        where = (
            f"belongs to spec.kubelet of EC2NodeClass {pool.node_class}, which is not in the input"
        )
        yield Fault(at, f"{where}: {shown}")
    elif len(_kubelet_variants(relations.users[pool.node_class])) > 1:
        where = f"pools of EC2NodeClass {pool.node_class} have different settings"
        yield Fault(
            at, f"{where}; create a separate class for this pool, with spec.kubelet: {shown}"
        )


def _node_pool_to_v1alpha5(document: Json, relations: _Relations) -> Iterable[Written]:
    pool = parse_node_pool(document).require(title_of(document))
    node_class = relations.classes.get(pool.node_class)
    kubelet, expressions = parted(node_class.kubelet if node_class is not None else {})
    written = provisioner_object(
        msgspec.structs.replace(
            pool, kubelet=kubelet, budgets=() if pool.budgets == NO_LIMIT else pool.budgets
        )
    )
    notes = (
        Fault(
            ("spec", "kubeletConfiguration"),
            f"EC2NodeClass {pool.node_class} has an expression for {field}, which v1alpha5 does not know; left out: "
            f"{text}",
        )
        for field, text in expressions.named()
    )
    yield Written(written.document, (*written.notes, *notes))


def _node_class_to_v1alpha5(document: Json, _: _Relations) -> Iterable[Written]:
    node_class = parse_ec2_node_class(document).require(title_of(document))
    written = node_template_object(msgspec.structs.replace(node_class, kubelet={}))
    notes = list(written.notes)
    if node_class.kubelet:
        shown = json.dumps(node_class.kubelet, ensure_ascii=False)
        where = "belongs to spec.kubeletConfiguration of every Provisioner of this template"
        notes.append(
            Fault(
                ("spec", "kubelet"),
                f"{where}; Provisioners of the same conversion already have it: {shown}",
            )
        )
    yield Written(written.document, tuple(notes))


def _not_converted(why: str) -> Callable[[Json, _Relations], Iterable[Written]]:
    def writer(document: Json, _: _Relations) -> Iterable[Written]:
        yield Written({}, (Fault((), f"{title_of(document)} is not converted: {why}"),))

    return writer


def _settings_to_v1(document: Json, _: _Relations) -> Iterable[Written]:
    """Notes that list each setting as the equivalent environment variable (OPS-03, OPS-04)."""
    notes = [Fault((), f"{title_of(document)}: set these in the environment of the services")]
    for key, text in (document.get("data") or {}).items():
        read = parse_global_settings({"data": {key: text}}).require(key).present()
        for name, value in read.items():
            shown = value if name == "feature_gates" else text
            notes.append(Fault(("data", key), f"{name.upper()}={shown}"))
    yield Written({}, tuple(notes))


PROVISIONER = ("karpenter.sh/v1alpha5", "Provisioner")
NODE_TEMPLATE = ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate")
NODE_POOL = ("karpenter.sh/v1", "NodePool")
EC2_NODE_CLASS = ("karpenter.k8s.aws/v1", "EC2NodeClass")
_Writer = Callable[[Json, _Relations], Iterable[Written]]
_TO_V1: dict[tuple[str, str], _Writer] = {
    PROVISIONER: _provisioner_to_v1,
    NODE_TEMPLATE: _node_template_to_v1,
    ("karpenter.sh/v1alpha5", "Machine"): _not_converted("a NodePool creates its own NodeClaims"),
    CONFIG_MAP: _settings_to_v1,
}
_TO_V1ALPHA5: dict[tuple[str, str], _Writer] = {
    NODE_POOL: _node_pool_to_v1alpha5,
    EC2_NODE_CLASS: _node_class_to_v1alpha5,
    ("karpenter.sh/v1", "NodeClaim"): _not_converted("a Provisioner creates its own Machines"),
    ("dovetail.sh/v1alpha1", "DeviceTemplate"): _not_converted("it is the same with v1alpha5"),
    ("karpenter.sh/v1alpha1", "NodeOverlay"): _not_converted("v1alpha5 has no overlays"),
}
