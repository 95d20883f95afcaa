"""Objects of v1beta1 rewritten as v1 (MAP-03). Pure; any input is accepted, because files may hold anything.

v1beta1 has the kind names of v1, and most fields stay where they are. A fault that the check of the v1 object finds is
therefore reported at the field's place in v1beta1 (``place_in_v1beta1``). Kubelet settings belong to the NodePool in
v1beta1 and to the EC2NodeClass in v1: they are returned separately, for whoever knows both objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.api.conversion.class_upgrade import (
    DROPPED_FAMILY,
    OLD_METADATA_DEFAULTS,
    dropped_family_note,
    reserved_tag_note,
)
from shared.api.conversion.v1beta1_kinds import (
    NODE_CLAIM,
    NODE_CLASS,
    NODE_POOL,
    kind_of,
)
from shared.api.faults import Fault, Path
from shared.api.schema.scalars import NEVER
from shared.api.schema.selector_terms import ALIAS_FAMILIES
from shared.api.schema.v1.ec2_node_class import is_reserved_tag
from shared.domain.pools.generations import CLASS_GROUP

Json = Mapping[str, Any]
OLD_POLICIES = {"WhenEmpty": "WhenEmpty", "WhenUnderutilized": "WhenEmptyOrUnderutilized"}
DEFAULT_POLICY = "WhenUnderutilized"
_REFERENCE: Path = ("spec", "template", "spec", "nodeClassRef")
_LATER: dict[tuple[str, str], tuple[Path, ...]] = {
    NODE_POOL: (
        ("spec", "replicas"),
        ("spec", "template", "spec", "expireAfter"),
        ("spec", "template", "spec", "terminationGracePeriod"),
        (*_REFERENCE, "group"),
        ("spec", "disruption", "budgets", "*", "reasons"),
    ),
    NODE_CLAIM: (
        ("spec", "expireAfter"),
        ("spec", "terminationGracePeriod"),
        ("spec", "nodeClassRef", "group"),
    ),
    NODE_CLASS: (
        *(
            ("spec", name)
            for name in (
                "capacityReservationSelectorTerms", "placementGroupSelector", "kubelet", "ipPrefixCount",
                "networkInterfaces", "connectionTracking", "cpuOptions",
                "enclaveOptions",
            )
        ),
        ("spec", "amiSelectorTerms", "*", "alias"),
        ("spec", "amiSelectorTerms", "*", "ssmParameter"),
    ),
}  # fmt: skip
"""Fields of v1 that v1beta1 does not have: an API server drops them. ``*`` is any index."""
_MOVED: dict[tuple[str, str], dict[Path, Path]] = {
    NODE_POOL: {
        ("spec", "template", "spec", "expireAfter"): ("spec", "disruption", "expireAfter"),
        (*_REFERENCE, "group"): (*_REFERENCE, "apiVersion"),
    },
    NODE_CLAIM: {("spec", "nodeClassRef", "group"): ("spec", "nodeClassRef", "apiVersion")},
    NODE_CLASS: {},
}
"""Kind -> place in v1 -> place in v1beta1, where the two differ."""


@dataclass(frozen=True)
class Upgraded:
    """``document``: the v1 object with everything else as it was; ``notes``: what it lacks, by v1beta1 field."""

    document: dict[str, Any]
    notes: tuple[Fault, ...] = ()
    kubelet: dict[str, Any] = field(default_factory=dict)
    """The kubelet settings of a NodePool or NodeClaim, which belong to the class in v1."""


def upgraded(document: Json) -> Upgraded:
    """The v1 object of a v1beta1 object; its kubelet settings apart. Never raises."""
    version, kind = kind_of(document)
    made = {**document, "apiVersion": f"{version.partition('/')[0]}/v1"}
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return Upgraded(made)
    spec = {key: value for key, value in spec.items() if value is not None}
    if kind == "EC2NodeClass":
        changed, notes = _class_spec(_without_later(spec, NODE_CLASS))
        return Upgraded({**made, "spec": changed}, notes)
    if kind == "NodeClaim":
        changed, kubelet = _machine_spec(_without_later(spec, NODE_CLAIM))
        return Upgraded({**made, "spec": changed}, (), kubelet)
    changed, notes, kubelet = _pool_spec(_without_later(spec, NODE_POOL))
    return Upgraded({**made, "spec": changed}, notes, kubelet)


def own_faults(document: Json) -> list[Fault]:
    """Faults that the check of the v1 object cannot find: fields and values that v1beta1 does not have."""
    spec = document.get("spec")
    if not isinstance(spec, Mapping):
        return []
    api = kind_of(document)[0]
    found = [
        Fault(path, f"{api} does not have this field; remove it, or write the object as v1")
        for pattern in _LATER[kind_of(document)]
        for path in _present(document, pattern, ())
    ]
    return [*found, *(_policy_faults(spec) if kind_of(document) == NODE_POOL else ())]


def place_in_v1beta1(document: Json, path: Path) -> Path:
    """Where the field at ``path`` of the upgraded object is written in ``document``."""
    moved = _MOVED[kind_of(document)]
    return next((old + path[len(new) :] for new, old in moved.items() if path[: len(new)] == new), path)  # fmt: skip


def _present(value: object, pattern: Path, at: Path) -> Iterable[Path]:
    """The paths of ``value`` that the pattern matches."""
    if not pattern:
        yield at
        return
    name, rest = pattern[0], pattern[1:]
    if name == "*" and isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _present(entry, rest, (*at, index))
    elif isinstance(value, Mapping) and value.get(name) is not None:
        yield from _present(value[name], rest, (*at, name))


def _without_later(spec: Json, kind: tuple[str, str]) -> dict[str, Any]:
    """The spec without the fields that v1beta1 does not have."""
    kept: Any = spec
    for pattern in _LATER[kind]:
        kept = _without(kept, pattern[1:])
    return dict(kept)


def _without(value: Any, pattern: Path) -> Any:
    name, rest = pattern[0], pattern[1:]
    if name == "*":
        return [_without(one, rest) for one in value] if isinstance(value, list) else value
    if not isinstance(value, Mapping) or name not in value:
        return value
    others = {key: one for key, one in value.items() if key != name}
    return {**others, name: _without(value[name], rest)} if rest else others


def _policy_faults(spec: Json) -> Iterable[Fault]:
    disruption = spec.get("disruption")
    if not isinstance(disruption, Mapping):
        return
    at = ("spec", "disruption")
    policy, after = disruption.get("consolidationPolicy"), disruption.get("consolidateAfter")
    if isinstance(policy, str) and policy not in OLD_POLICIES:
        yield Fault(
            (*at, "consolidationPolicy"), f"{policy[:40]!r} is not one of {', '.join(OLD_POLICIES)}"
        )
    if policy in (None, DEFAULT_POLICY) and after not in (None, NEVER):
        yield Fault(
            (*at, "consolidateAfter"),
            f"cannot be combined with {DEFAULT_POLICY}, except {NEVER}; remove it",
        )


def _pool_spec(spec: Json) -> tuple[dict[str, Any], tuple[Fault, ...], dict[str, Any]]:
    """(spec of v1, notes, kubelet settings)."""
    disruption, expiry = _disruption(spec.get("disruption", {}))
    template = spec.get("template")
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        return {**spec, "disruption": disruption}, (), {}
    machine, kubelet = _machine_spec(template["spec"])
    notes: tuple[Fault, ...] = ()
    if "resources" in machine:
        del machine["resources"]
        at = ("spec", "template", "spec", "resources")
        notes = (Fault(at, "has no effect in a NodePool; left out"),)
    changed = {**template, "spec": {**machine, **expiry}}
    return {**spec, "template": changed, "disruption": disruption}, notes, kubelet


def _disruption(raw: Any) -> tuple[Any, dict[str, Any]]:
    """(spec.disruption of v1, expireAfter for the template). What is no object stays, for the check to report."""
    if not isinstance(raw, Mapping):
        return raw, {}
    given = {key: value for key, value in raw.items() if value is not None}
    expiry = {"expireAfter": given.pop("expireAfter")} if "expireAfter" in given else {}
    policy = given.get("consolidationPolicy", DEFAULT_POLICY)
    # Never and WhenUnderutilized together mean no consolidation. Other values are not allowed with it.
    after = {"consolidateAfter": "0s"} if policy == DEFAULT_POLICY else {}
    known = isinstance(policy, str) and policy in OLD_POLICIES
    return {
        **after,
        **given,
        "consolidationPolicy": OLD_POLICIES[policy] if known else policy,
    }, expiry


def _machine_spec(spec: Json) -> tuple[dict[str, Any], dict[str, Any]]:
    """(spec of a machine in v1, kubelet settings). What is no object stays, for the check to report."""
    changed = {key: value for key, value in spec.items() if value is not None}
    kubelet = changed.pop("kubelet", {})
    if not isinstance(kubelet, Mapping):
        kubelet = {}
    if isinstance(changed.get("nodeClassRef"), Mapping):
        changed["nodeClassRef"] = _reference(changed["nodeClassRef"])
    return changed, {key: value for key, value in kubelet.items() if value is not None}


def _reference(raw: Json) -> dict[str, Any]:
    """``apiVersion`` becomes ``group``; both group and kind had defaults."""
    kept = {key: value for key, value in raw.items() if key != "apiVersion" and value is not None}
    version = raw.get("apiVersion")
    group = version.partition("/")[0] if isinstance(version, str) else version
    return {"kind": "EC2NodeClass", **kept, "group": group or CLASS_GROUP}


def _class_spec(spec: Json) -> tuple[dict[str, Any], tuple[Fault, ...]]:
    """(spec of v1, notes). The default of an older hop limit is written out, because v1 has another (MAP-04)."""
    notes: list[Fault] = []
    changed = dict(spec)
    family, terms = spec.get("amiFamily"), spec.get("amiSelectorTerms")
    alias = {family: alias for alias, family in ALIAS_FAMILIES.items()}.get(str(family))
    if alias and terms in (None, []):
        changed["amiSelectorTerms"] = [{"alias": f"{alias}@latest"}]
    if family == DROPPED_FAMILY:
        del changed["amiFamily"]
        notes.append(dropped_family_note())
    options = spec.get("metadataOptions", {})
    if isinstance(options, Mapping):
        given = {key: value for key, value in options.items() if value is not None}
        changed["metadataOptions"] = {**OLD_METADATA_DEFAULTS, **given}
    tags = spec.get("tags")
    if isinstance(tags, Mapping):
        reserved = [key for key in tags if isinstance(key, str) and is_reserved_tag(key)]
        changed["tags"] = {key: value for key, value in tags.items() if key not in reserved}
        notes += map(reserved_tag_note, reserved)
    return changed, tuple(notes)
