"""core/v1 Pod and apps/v1 DaemonSet -> domain records.

A pod that says something wrong is still a record: its ``faults`` name the fields, it is not planned, and the others
go on (POD-03, F27).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.api.faults import Faults
from shared.api.label_syntax import is_label_value
from shared.api.shapes import entries, mapping, text, text_list, texts, whole
from shared.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain import resources
from shared.domain.expressions import Expression, Toleration
from shared.domain.nodes import DaemonSet
from shared.domain.pods import AffinityTerm, Owner, Pod, PreferredTerm, SpreadConstraint
from shared.errors import InvalidObject

Json = Mapping[str, Any]
OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
MOST_TOLERATIONS = 1000
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_Affinity = tuple[tuple[tuple[Expression, ...], ...], tuple[PreferredTerm, ...]]


def parse_pod(raw: Json) -> Pod:
    """The planner's record of a pod. Never raises for what a user wrote."""
    meta, faults = raw["metadata"], Faults()
    attempt = faults.attempt
    nothing: Json = {}
    spec = attempt(lambda: mapping(raw.get("spec"), "spec"), nothing)
    status = attempt(lambda: mapping(raw.get("status"), "status"), nothing)
    nowhere: _Affinity = ((), ())
    required, preferred = attempt(lambda: _node_affinity(spec), nowhere)
    record = Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        created_at=parse_rfc3339(meta["creationTimestamp"]),
        labels=meta.get("labels") or {},
        requests=attempt(lambda: pod_requests(spec), {resources.PODS: 1}),
        node_name=attempt(lambda: text(spec.get("nodeName"), "spec.nodeName"), ""),
        nominated_node=attempt(
            lambda: text(status.get("nominatedNodeName"), "status.nominatedNodeName"), ""
        ),
        phase=attempt(lambda: text(status.get("phase"), "status.phase"), "") or "Pending",
        unschedulable=attempt(lambda: _is_unschedulable(status), False),
        terminating=bool(meta.get("deletionTimestamp")),
        owner=_owner(meta),
        node_selector=attempt(lambda: _selector(spec), {}),
        required_terms=required,
        preferred_terms=preferred,
        tolerations=attempt(lambda: _tolerations(spec), ()),
        spread=attempt(lambda: _spread(spec), ()),
        affinity=attempt(lambda: _pod_affinity(spec, "podAffinity"), ()),
        anti_affinity=attempt(lambda: _pod_affinity(spec, "podAntiAffinity"), ()),
        host_ports=attempt(lambda: _host_ports(spec), ()),
        volume_claims=attempt(lambda: _volume_claims(meta["name"], spec), ()),
        priority=attempt(lambda: whole(spec.get("priority"), "spec.priority"), None) or 0,
        priority_class=attempt(
            lambda: text(spec.get("priorityClassName"), "spec.priorityClassName"), ""
        ),
        do_not_disrupt=_do_not_disrupt(meta),
    )
    return record if not faults.found else replace(record, faults=tuple(faults.found))


def parse_daemon_set(raw: Json) -> DaemonSet:
    """A daemon set's pod template. Raises InvalidObject."""
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
    )


def pod_requests(spec: Json) -> dict[str, int]:
    """SCH-60: what a node must have free for this pod. Raises InvalidObject naming the container."""
    steady = resources.sum_of(
        _container(c, f"spec.containers[{i}]")
        for i, c in enumerate(entries(spec.get("containers"), "spec.containers"))
    )
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    init_containers = entries(spec.get("initContainers"), "spec.initContainers")
    for index, container in enumerate(init_containers):
        request = _container(container, f"spec.initContainers[{index}]")
        if container.get("restartPolicy") == "Always":
            sidecars = resources.add(sidecars, request)
            request = {}
        peak = resources.at_least(peak, resources.add(sidecars, request))
    total = resources.at_least(resources.add(steady, sidecars), peak)
    overhead = resources.parse_resources(spec.get("overhead"), field="spec.overhead")
    total = resources.add(total, overhead, {resources.PODS: 1})
    for name, amount in total.items():
        if amount > resources.LARGEST_AMOUNT:  # the record would not fit in 64 bits
            raise InvalidObject(
                f"all containers together ask for more {name} than any machine has",
                field="spec.containers",
            )
    return total


def _container(container: Json, field: str) -> dict[str, int]:
    raw = mapping(container.get("resources"), f"{field}.resources")
    limits = mapping(raw.get("limits"), f"{field}.resources.limits")
    requests = mapping(raw.get("requests"), f"{field}.resources.requests")
    return resources.parse_resources({**limits, **requests}, field=f"{field}.resources.requests")


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
    return {keys.normalise(key): value for key, value in selector.items()}


def parse_expressions(
    raw: object, *, field: str, operators: frozenset[str] = OPERATORS
) -> tuple[Expression, ...]:
    """A list of ``{key, operator, values}``. Raises InvalidObject naming the entry and what is allowed."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise InvalidObject("must be a list of requirements", field=field)
    return tuple(parse_expression(e, f"{field}[{i}]", operators) for i, e in enumerate(raw))


def parse_expression(raw: object, field: str, operators: frozenset[str] = OPERATORS) -> Expression:
    """One ``{key, operator, values}``. Raises InvalidObject naming what is wrong."""
    if not isinstance(raw, Mapping) or not raw.get("key"):
        raise InvalidObject("needs a key", field=f"{field}.key")
    operator, values = raw.get("operator"), text_list(raw.get("values"), f"{field}.values")
    if not isinstance(operator, str) or operator not in operators:
        raise InvalidObject(
            f"unknown operator {str(operator)[:40]!r}; use one of {', '.join(sorted(operators))}",
            field=f"{field}.operator",
        )
    if operator == "In" and not values:
        raise InvalidObject("operator In needs at least one value", field=f"{field}.values")
    if operator == "In" and not all(map(is_label_value, values)):
        raise InvalidObject("each value must be a label value", field=f"{field}.values")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidObject(f"operator {operator} takes no values", field=f"{field}.values")
    if operator in ("Gt", "Lt", "Gte", "Lte") and not (
        len(values) == 1 and values[0].isascii() and values[0].isdigit()
    ):
        raise InvalidObject(
            f"operator {operator} needs exactly one whole number, zero or more",
            field=f"{field}.values",
        )
    minimum = whole(raw.get("minValues"), f"{field}.minValues")
    return Expression(keys.normalise(text(raw["key"], f"{field}.key")), operator, values, minimum)


def _affinity(spec: Json, kind: str) -> tuple[Json, str]:
    """One kind of affinity and its field name."""
    field = f"spec.affinity.{kind}"
    return mapping(mapping(spec.get("affinity"), "spec.affinity").get(kind), field), field


def _node_affinity(spec: Json) -> _Affinity:
    raw, field = _affinity(spec, "nodeAffinity")
    place = f"{field}.{_REQUIRED}.nodeSelectorTerms"
    required = mapping(raw.get(_REQUIRED), f"{field}.{_REQUIRED}")
    terms = tuple(
        _term(term, f"{place}[{index}]")
        for index, term in enumerate(entries(required.get("nodeSelectorTerms"), place))
    )
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


def _term(term: Json, field: str) -> tuple[Expression, ...]:
    if term.get("matchFields"):
        raise InvalidObject(
            "matchFields cannot be used to ask for a new node; use matchExpressions (POD-05)",
            field=f"{field}.matchFields",
        )
    return parse_expressions(term.get("matchExpressions"), field=f"{field}.matchExpressions")


def _tolerations(spec: Json) -> tuple[Toleration, ...]:
    raw = entries(spec.get("tolerations"), "spec.tolerations")
    if len(raw) > MOST_TOLERATIONS:
        raise InvalidObject(f"more than {MOST_TOLERATIONS} tolerations", field="spec.tolerations")
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
    return tuple(_spread_constraint(one, f"{field}[{index}]") for index, one in enumerate(raw))


def _spread_constraint(raw: Json, field: str) -> SpreadConstraint:
    match_labels, expressions = _label_selector(raw, field)
    when = text(raw.get("whenUnsatisfiable"), f"{field}.whenUnsatisfiable")
    return SpreadConstraint(
        max_skew=whole(raw.get("maxSkew"), f"{field}.maxSkew") or 1,
        topology_key=_topology_key(raw, field),
        when_unsatisfiable=when or "DoNotSchedule",
        match_labels=match_labels,
        expressions=expressions,
        min_domains=whole(raw.get("minDomains"), f"{field}.minDomains"),
        match_label_keys=text_list(raw.get("matchLabelKeys"), f"{field}.matchLabelKeys"),
    )


def _label_selector(raw: Json, field: str) -> tuple[dict[str, str], tuple[Expression, ...]]:
    field = f"{field}.labelSelector"
    selector = mapping(raw.get("labelSelector"), field)
    return texts(selector.get("matchLabels"), f"{field}.matchLabels"), parse_expressions(
        selector.get("matchExpressions"), field=f"{field}.matchExpressions"
    )


def _topology_key(raw: Json, field: str) -> str:
    key = text(raw.get("topologyKey"), f"{field}.topologyKey")
    if not key:
        raise InvalidObject("is required", field=f"{field}.topologyKey")
    return keys.normalise(key)


def _pod_affinity(spec: Json, kind: str) -> tuple[AffinityTerm, ...]:
    raw, field = _affinity(spec, kind)
    place = f"{field}.{_REQUIRED}"
    required = tuple(
        _affinity_term(term, f"{place}[{index}]", None)
        for index, term in enumerate(entries(raw.get(_REQUIRED), place))
    )
    place = f"{field}.{_PREFERRED}"
    preferred = tuple(
        _affinity_term(
            mapping(entry.get("podAffinityTerm"), f"{place}[{index}].podAffinityTerm"),
            f"{place}[{index}].podAffinityTerm",
            whole(entry.get("weight"), f"{place}[{index}].weight") or 1,
        )
        for index, entry in enumerate(entries(raw.get(_PREFERRED), place))
    )
    return required + preferred


def _affinity_term(term: Json, field: str, weight: int | None) -> AffinityTerm:
    match_labels, expressions = _label_selector(term, field)
    return AffinityTerm(
        topology_key=_topology_key(term, field),
        match_labels=match_labels,
        expressions=expressions,
        namespaces=text_list(term.get("namespaces"), f"{field}.namespaces") or None,
        weight=weight,
    )


def _host_ports(spec: Json) -> tuple[tuple[str, str, int], ...]:
    found = []
    for number, container in enumerate(entries(spec.get("containers"), "spec.containers")):
        place = f"spec.containers[{number}].ports"
        for index, port in enumerate(entries(container.get("ports"), place)):
            field = f"{place}[{index}]"
            host_port = whole(port.get("hostPort"), f"{field}.hostPort")
            if host_port:
                protocol = text(port.get("protocol"), f"{field}.protocol") or "TCP"
                address = text(port.get("hostIP"), f"{field}.hostIP") or "0.0.0.0"
                found.append((protocol, address, host_port))
    return tuple(found)


def _volume_claims(pod_name: str, spec: Json) -> tuple[str, ...]:
    """Claim names; a generic ephemeral volume makes ``<pod>-<volume>`` (POD-07)."""
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
