"""core/v1 Pod and apps/v1 DaemonSet -> domain records.

An invalid pod still becomes a record: its ``faults`` name the fields, and it is not planned. It does not affect other
pods (POD-03, F27).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.api.core.expressions import own_values, parse_expressions, read_selector
from shared.api.core.gangs import Membership, read_gang
from shared.api.core.label_syntax import LABEL_VALUE_FORM, is_label_value
from shared.api.core.namespaces import namespaces_of
from shared.api.core.pod_requests import pod_requests
from shared.api.faults import Faults
from shared.api.hardware.pod_claims import read_pod_claims, read_template_claims
from shared.api.shapes import TIMESTAMP_EXAMPLE, entries, mapping, text, text_list, texts, whole
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain import resources
from shared.domain.expressions import Expression, Toleration
from shared.domain.nodes import DaemonSet
from shared.domain.workloads.pods import (
    NOBODY,
    AffinityTerm,
    Owner,
    Pod,
    PreferredTerm,
    SpreadConstraint,
)
from shared.domain.workloads.scale_down import SAFE_LOCAL_VOLUMES, SAFE_TO_EVICT
from shared.errors import InvalidObject

Json = Mapping[str, Any]
MOST_TOLERATIONS = 1000
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
DEFAULT_GRACE_SECONDS = 30
_ASKABLE = keys.WELL_KNOWN | {keys.NODE_POOL, keys.PROVISIONER_NAME, keys.NODE_CLASS}
_OURS = ("karpenter.sh/", keys.AWS_PREFIX)
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_Affinity = tuple[tuple[tuple[Expression, ...], ...], tuple[PreferredTerm, ...]]


def parse_pod(raw: Json) -> Pod:
    """The planner's record of a pod. Never raises for invalid fields of the spec."""
    meta, faults = raw["metadata"], Faults()
    attempt = faults.attempt
    nothing: Json = {}
    spec = attempt(lambda: mapping(raw.get("spec"), "spec"), nothing)
    status = attempt(lambda: mapping(raw.get("status"), "status"), nothing)
    nowhere: _Affinity = ((), ())
    owner = _owner(meta)
    # The DaemonSet controller pins a daemon pod to an existing node (matchFields), so its affinity selects no new node.
    pinned = owner is not None and owner.kind == "DaemonSet"
    required, preferred = nowhere if pinned else attempt(lambda: _node_affinity(spec), nowhere)
    for fault in _restricted_keys(required):
        faults.note(*fault)
    record = Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        created_at=parse_rfc3339(meta["creationTimestamp"]),
        labels=meta.get("labels") or {},
        requests=attempt(lambda: pod_requests(spec, status), {resources.PODS: 1}),
        node_name=attempt(lambda: text(spec.get("nodeName"), "spec.nodeName"), ""),
        nominated_node=attempt(
            lambda: text(status.get("nominatedNodeName"), "status.nominatedNodeName"), ""
        ),
        phase=attempt(lambda: text(status.get("phase"), "status.phase"), "") or "Pending",
        unschedulable=attempt(lambda: _is_unschedulable(status), False),
        terminating=bool(meta.get("deletionTimestamp")),
        owner=owner,
        node_selector=attempt(lambda: _selector(spec), {}),
        required_terms=required,
        preferred_terms=preferred,
        tolerations=attempt(lambda: _tolerations(spec), ()),
        spread=attempt(lambda: _spread(spec), ()),
        affinity=attempt(lambda: _pod_affinity(meta, spec, "podAffinity"), ()),
        anti_affinity=attempt(lambda: _pod_affinity(meta, spec, "podAntiAffinity"), ()),
        host_ports=attempt(lambda: _host_ports(spec), ()),
        volume_claims=attempt(lambda: _volume_claims(meta["name"], spec), ()),
        priority=attempt(lambda: whole(spec.get("priority"), "spec.priority"), None) or 0,
        priority_class=attempt(
            lambda: text(spec.get("priorityClassName"), "spec.priorityClassName"), ""
        ),
        do_not_disrupt=_do_not_disrupt(meta),
        safe_to_evict=_safe_to_evict(meta),
        keeps_local_data=attempt(lambda: _keeps_local_data(meta, spec), False),
        deletion_cost=_deletion_cost(meta),
        started_at=attempt(lambda: _time(status.get("startTime"), "status.startTime"), 0.0),
        terminate_at=_time(meta.get("deletionTimestamp"), "metadata.deletionTimestamp"),
        grace_seconds=attempt(lambda: _grace(spec), DEFAULT_GRACE_SECONDS),
        claims_devices=bool(spec.get("resourceClaims")),
        device_claims=attempt(lambda: read_pod_claims(spec, status), ()),
        consumes=_annotation(meta, keys.CONSUMES_REQUEST),
    )
    gang = attempt(lambda: read_gang(meta, spec), Membership())
    if any(gang):
        within = {"gang_topology": gang.topology, "gang_topology_preferred": gang.is_preferred}
        record = replace(record, gang=gang.name, gang_size=gang.size, **within)
    return record if not faults.found else replace(record, faults=tuple(faults.found))


def parse_daemon_set(raw: Json) -> DaemonSet:
    """The record of a DaemonSet's pod template. Raises InvalidObject."""
    meta = raw["metadata"]
    template = mapping(mapping(raw.get("spec"), "spec").get("template"), "spec.template")
    spec = mapping(template.get("spec"), "spec.template.spec")
    return DaemonSet(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        requests=pod_requests(spec),
        node_selector=_selector(spec),
        required_terms=_node_affinity(spec)[0],
        tolerations=_tolerations(spec),
        host_ports=_host_ports(spec),
        device_claims=read_template_claims(spec),
    )


def _is_unschedulable(status: Json) -> bool:
    return any(
        c.get("type") == "PodScheduled"
        and c.get("status") == "False"
        and c.get("reason") == "Unschedulable"
        for c in entries(status.get("conditions"), "status.conditions")
    )


def _owner(meta: Json) -> Owner | None:
    for reference in meta.get("ownerReferences") or ():
        if reference.get("controller") or reference.get("kind") in ("DaemonSet", "Node"):
            return Owner(reference["kind"], reference["name"], reference["uid"])
    return None


def _selector(spec: Json) -> dict[str, str]:
    selector = texts(spec.get("nodeSelector"), "spec.nodeSelector")
    for key, value in selector.items():
        if not is_label_value(value):
            fault = f"must be a label value: {LABEL_VALUE_FORM}"
            raise InvalidObject(fault, field=f"spec.nodeSelector[{key}]")
    return {keys.normalise(key): value for key, value in selector.items()}


def _affinity(spec: Json, kind: str) -> tuple[Json, str]:
    """(``spec.affinity.<kind>``, its field name)."""
    field = f"spec.affinity.{kind}"
    return mapping(mapping(spec.get("affinity"), "spec.affinity").get(kind), field), field


def _node_affinity(spec: Json) -> _Affinity:
    raw, field = _affinity(spec, "nodeAffinity")
    place = f"{field}.{_REQUIRED}.nodeSelectorTerms"
    required = mapping(raw.get(_REQUIRED), f"{field}.{_REQUIRED}")
    terms = _either(required, place)
    place = f"{field}.{_PREFERRED}"
    preferred = tuple(
        PreferredTerm(
            whole(entry.get("weight"), f"{place}[{index}].weight") or 1,
            _term(
                mapping(entry.get("preference"), f"{place}[{index}].preference"),
                f"{place}[{index}].preference",
            ),
        )
        for index, entry in enumerate(entries(raw.get(_PREFERRED), place))
    )
    return terms, preferred


def _either(required: Json, place: str) -> tuple[tuple[Expression, ...], ...]:
    """The terms of ``required``, which are alternatives. Raises InvalidObject when all are empty: an empty term matches
    no node, so a machine launched for the pod would not run it."""
    written = entries(required.get("nodeSelectorTerms"), place)
    terms = [_term(term, f"{place}[{index}]") for index, term in enumerate(written)]
    meaningful = tuple(term for term in terms if term)
    if terms and not meaningful:
        fault = "match no node: every term is empty; add matchExpressions or remove the terms"
        raise InvalidObject(fault, field=place)
    return meaningful


def _term(term: Json, field: str) -> tuple[Expression, ...]:
    if term.get("matchFields"):
        raise InvalidObject(
            "matchFields cannot select a new node; use matchExpressions",
            field=f"{field}.matchFields",
        )
    return parse_expressions(term.get("matchExpressions"), field=f"{field}.matchExpressions")


def _restricted_keys(required: tuple[tuple[Expression, ...], ...]) -> list[tuple[str, str]]:
    """POD-05: a pod cannot require labels that only the autoscaler or the kubelet sets."""
    required_keys = sorted({expression.key for term in required for expression in term})
    field = f"spec.affinity.nodeAffinity.{_REQUIRED}"
    return [
        (field, f"label {key} is restricted; use a well-known label or a label in your own domain")
        for key in required_keys
        if key not in _ASKABLE and (key == keys.HOSTNAME or key.startswith(_OURS))
    ]


def _tolerations(spec: Json) -> tuple[Toleration, ...]:
    raw = entries(spec.get("tolerations"), "spec.tolerations")
    if len(raw) > MOST_TOLERATIONS:
        raise InvalidObject(
            f"has more than {MOST_TOLERATIONS} tolerations", field="spec.tolerations"
        )
    return tuple(
        Toleration(
            text(t.get("key"), f"spec.tolerations[{index}].key"),
            text(t.get("operator"), f"spec.tolerations[{index}].operator") or "Equal",
            text(t.get("value"), f"spec.tolerations[{index}].value"),
            text(t.get("effect"), f"spec.tolerations[{index}].effect"),
        )
        for index, t in enumerate(raw)
    )


def _spread(spec: Json) -> tuple[SpreadConstraint, ...]:
    field = "spec.topologySpreadConstraints"
    raw = entries(spec.get("topologySpreadConstraints"), field)
    return tuple(spread_constraint(one, f"{field}[{index}]") for index, one in enumerate(raw))


def spread_constraint(raw: Json, field: str) -> SpreadConstraint:
    """One entry of ``topologySpreadConstraints``. Raises InvalidObject."""
    match_labels, expressions = _label_selector(raw, field)
    return SpreadConstraint(
        max_skew=_one_or_more(raw, "maxSkew", field) or 1,
        topology_key=_topology_key(raw, field),
        when_unsatisfiable=_one_of(raw, "whenUnsatisfiable", field, _WHEN_UNSATISFIABLE),
        match_labels=match_labels,
        expressions=expressions,
        min_domains=_one_or_more(raw, "minDomains", field),
        match_label_keys=text_list(raw.get("matchLabelKeys"), f"{field}.matchLabelKeys"),
        node_affinity_policy=_one_of(raw, "nodeAffinityPolicy", field, ("Honor", "Ignore")),
        node_taints_policy=_one_of(raw, "nodeTaintsPolicy", field, ("Ignore", "Honor")),
    )


def _one_of(raw: Json, name: str, field: str, choices: tuple[str, ...]) -> str:
    """The value of an enum field; ``choices[0]`` when absent."""
    found = text(raw.get(name), f"{field}.{name}") or choices[0]
    if found not in choices:
        raise InvalidObject(f"must be one of {', '.join(choices)}", field=f"{field}.{name}")
    return found


def _one_or_more(raw: Json, name: str, field: str) -> int | None:
    found = whole(raw.get(name), f"{field}.{name}")
    if found is not None and found < 1:
        raise InvalidObject("must be at least 1", field=f"{field}.{name}")
    return found


def _label_selector(raw: Json, field: str) -> tuple[dict[str, str], tuple[Expression, ...]]:
    """Labels and expressions. An absent selector selects no pod, an empty one every pod."""
    if raw.get("labelSelector") is None:
        return {}, (NOBODY,)
    return read_selector(raw["labelSelector"], f"{field}.labelSelector")


def _topology_key(raw: Json, field: str) -> str:
    key = text(raw.get("topologyKey"), f"{field}.topologyKey")
    if not key:
        raise InvalidObject("is required", field=f"{field}.topologyKey")
    return keys.normalise(key)


def _pod_affinity(meta: Json, spec: Json, kind: str) -> tuple[AffinityTerm, ...]:
    raw, field = _affinity(spec, kind)
    labels, place = meta.get("labels") or {}, f"{field}.{_REQUIRED}"
    required = tuple(
        _affinity_term(term, labels, f"{place}[{index}]", None)
        for index, term in enumerate(entries(raw.get(_REQUIRED), place))
    )
    place = f"{field}.{_PREFERRED}"
    preferred = tuple(
        _affinity_term(
            mapping(entry.get("podAffinityTerm"), f"{place}[{index}].podAffinityTerm"),
            labels,
            f"{place}[{index}].podAffinityTerm",
            whole(entry.get("weight"), f"{place}[{index}].weight") or 1,
        )
        for index, entry in enumerate(entries(raw.get(_PREFERRED), place))
    )
    return required + preferred


def _affinity_term(term: Json, labels: Json, field: str, weight: int | None) -> AffinityTerm:
    match_labels, expressions = _label_selector(term, field)
    own = own_values(term, labels, field)
    return AffinityTerm(
        topology_key=_topology_key(term, field),
        match_labels=match_labels,
        expressions=(*expressions, *(one for one in own if one not in expressions)),
        weight=weight,
        **namespaces_of(term, field),
    )


def _host_ports(spec: Json) -> tuple[tuple[str, str, int], ...]:
    """SCH-90: (protocol, address, port). With hostNetwork every container port is a host port."""
    name = "containerPort" if spec.get("hostNetwork") is True else "hostPort"
    found = []
    for number, container in enumerate(entries(spec.get("containers"), "spec.containers")):
        place = f"spec.containers[{number}].ports"
        for index, port in enumerate(entries(container.get("ports"), place)):
            field = f"{place}[{index}]"
            host_port = whole(port.get(name), f"{field}.{name}")
            if host_port:
                protocol = text(port.get("protocol"), f"{field}.protocol") or "TCP"
                address = text(port.get("hostIP"), f"{field}.hostIP") or "0.0.0.0"
                found.append((protocol, address, host_port))
    return tuple(found)


def _volume_claims(pod_name: str, spec: Json) -> tuple[str, ...]:
    """Names of the PersistentVolumeClaims; that of a generic ephemeral volume is ``<pod>-<volume>`` (POD-07)."""
    names = []
    for index, volume in enumerate(entries(spec.get("volumes"), "spec.volumes")):
        field = f"spec.volumes[{index}]"
        claim = mapping(volume.get("persistentVolumeClaim"), f"{field}.persistentVolumeClaim")
        if claim:
            names.append(text(claim.get("claimName"), f"{field}.persistentVolumeClaim.claimName"))
        elif volume.get("ephemeral"):
            names.append(f"{pod_name}-{text(volume.get('name'), f'{field}.name')}")
    return tuple(names)


def _do_not_disrupt(meta: Json) -> str:
    annotations = meta.get("annotations") or {}
    if annotations.get(keys.DO_NOT_EVICT) == "true":
        return "true"
    return str(annotations.get(keys.DO_NOT_DISRUPT) or "")


def _safe_to_evict(meta: Json) -> str:
    written = str((meta.get("annotations") or {}).get(SAFE_TO_EVICT) or "")
    return written if written in ("true", "false") else ""


def _keeps_local_data(meta: Json, spec: Json) -> bool:
    """Has it a hostPath, or an emptyDir that is not in memory, beside the volumes that its annotation names?"""
    named = str((meta.get("annotations") or {}).get(SAFE_LOCAL_VOLUMES) or "").split(",")
    return any(
        "hostPath" in volume or ("emptyDir" in volume and _is_on_disk(volume["emptyDir"]))
        for volume in entries(spec.get("volumes"), "spec.volumes")
        if volume.get("name") not in named
    )


def _is_on_disk(empty_dir: object) -> bool:
    return mapping(empty_dir, "spec.volumes.emptyDir").get("medium") != "Memory"


def _annotation(meta: Json, name: str) -> str:
    return str((meta.get("annotations") or {}).get(name) or "")


def _deletion_cost(meta: Json) -> int:
    """The pod deletion cost; 0 for a value that is not an int32, which Kubernetes ignores too."""
    written = str((meta.get("annotations") or {}).get(DELETION_COST) or "0")
    if not re.fullmatch(r"-?[0-9]{1,10}", written) or not -(2**31) <= int(written) < 2**31:
        return 0
    return int(written)


def _grace(spec: Json) -> int:
    grace = whole(spec.get("terminationGracePeriodSeconds"), "spec.terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if grace is None else grace


def _time(raw: object, field: str) -> float:
    written = text(raw, field)
    try:
        return parse_rfc3339(written) if written else 0.0
    except ValueError as error:
        raise InvalidObject(f"must be a timestamp {TIMESTAMP_EXAMPLE}", field=field) from error
