"""core/v1 Pod and apps/v1 DaemonSet -> domain records.

A pod that says something wrong is still a record: its ``faults`` name the fields, it is not planned, and the others
go on (POD-03, F27).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

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
Value = TypeVar("Value")
_Affinity = tuple[tuple[tuple[Expression, ...], ...], tuple[PreferredTerm, ...]]


def parse_pod(raw: Json) -> Pod:
    """The planner's record of a pod. Never raises for what a user wrote."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    faults: list[str] = []

    def attempt(read: Callable[[], Value], default: Value) -> Value:
        try:
            return read()
        except InvalidObject as error:
            faults.append(str(error))
            return default

    nowhere: _Affinity = ((), ())
    required, preferred = attempt(lambda: _node_affinity(spec), nowhere)
    record = Pod(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        created_at=parse_rfc3339(meta["creationTimestamp"]),
        labels=meta.get("labels") or {},
        requests=attempt(lambda: pod_requests(spec), {resources.PODS: 1}),
        node_name=spec.get("nodeName") or "",
        nominated_node=status.get("nominatedNodeName") or "",
        phase=status.get("phase") or "Pending",
        unschedulable=_is_unschedulable(status),
        terminating=bool(meta.get("deletionTimestamp")),
        owner=_owner(meta),
        node_selector=_selector(spec),
        required_terms=required,
        preferred_terms=preferred,
        tolerations=attempt(lambda: _tolerations(spec), ()),
        spread=attempt(lambda: _spread(spec), ()),
        affinity=attempt(lambda: _pod_affinity(spec, "podAffinity"), ()),
        anti_affinity=attempt(lambda: _pod_affinity(spec, "podAntiAffinity"), ()),
        host_ports=_host_ports(spec),
        volume_claims=_volume_claims(meta["name"], spec),
        priority=spec.get("priority") or 0,
        priority_class=spec.get("priorityClassName") or "",
        do_not_disrupt=_do_not_disrupt(meta),
    )
    return record if not faults else _with_faults(record, faults)


def _with_faults(pod: Pod, faults: list[str]) -> Pod:
    fields = {name: getattr(pod, name) for name in pod.__struct_fields__}
    return Pod(**{**fields, "faults": tuple(faults)})


def parse_daemon_set(raw: Json) -> DaemonSet:
    """A daemon set's pod template. Raises InvalidObject."""
    meta, spec = raw["metadata"], raw["spec"]["template"].get("spec") or {}
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
    steady = _sum(spec, "containers")
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(spec.get("initContainers") or ()):
        request = _container(container, f"spec.initContainers[{index}]")
        if container.get("restartPolicy") == "Always":
            sidecars = resources.add(sidecars, request)
            request = {}
        peak = resources.at_least(peak, resources.add(sidecars, request))
    total = resources.at_least(resources.add(steady, sidecars), peak)
    overhead = resources.parse_resources(spec.get("overhead"), field="spec.overhead")
    return resources.add(total, overhead, {resources.PODS: 1})


def _sum(spec: Json, field: str) -> dict[str, int]:
    containers = spec.get(field) or ()
    return resources.sum_of(_container(c, f"spec.{field}[{i}]") for i, c in enumerate(containers))


def _container(container: Json, field: str) -> dict[str, int]:
    raw = container.get("resources") or {}
    requests = {**(raw.get("limits") or {}), **(raw.get("requests") or {})}
    return resources.parse_resources(requests, field=f"{field}.resources.requests")


def _is_unschedulable(status: Json) -> bool:
    return any(
        c.get("type") == "PodScheduled"
        and c.get("status") == "False"
        and c.get("reason") == "Unschedulable"
        for c in status.get("conditions") or ()
    )


def _owner(meta: Json) -> Owner | None:
    for reference in meta.get("ownerReferences") or ():
        if reference.get("controller") or reference.get("kind") in ("DaemonSet", "Node"):
            return Owner(reference["kind"], reference["name"], reference["uid"])
    return None


def _selector(spec: Json) -> dict[str, str]:
    return {keys.normalise(k): v for k, v in (spec.get("nodeSelector") or {}).items()}


def parse_expressions(
    raw: object, *, field: str, operators: frozenset[str] = OPERATORS
) -> tuple[Expression, ...]:
    """A list of ``{key, operator, values}``. Raises InvalidObject naming the entry and what is allowed."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise InvalidObject("must be a list of requirements", field=field)
    return tuple(_expression(e, f"{field}[{i}]", operators) for i, e in enumerate(raw))


def _expression(raw: object, field: str, operators: frozenset[str]) -> Expression:
    if not isinstance(raw, Mapping) or not raw.get("key"):
        raise InvalidObject("needs a key", field=f"{field}.key")
    operator, values = raw.get("operator"), [str(v) for v in raw.get("values") or ()]
    if operator not in operators:
        raise InvalidObject(
            f"unknown operator {str(operator)[:40]!r}; use one of {', '.join(sorted(operators))}",
            field=f"{field}.operator",
        )
    if operator == "In" and not values:
        raise InvalidObject("operator In needs at least one value", field=f"{field}.values")
    if operator in ("Exists", "DoesNotExist") and values:
        raise InvalidObject(f"operator {operator} takes no values", field=f"{field}.values")
    if operator in ("Gt", "Lt", "Gte", "Lte") and not (
        len(values) == 1 and values[0].isascii() and values[0].isdigit()
    ):
        raise InvalidObject(
            f"operator {operator} needs exactly one whole number, zero or more",
            field=f"{field}.values",
        )
    minimum = raw.get("minValues")
    return Expression(keys.normalise(str(raw["key"])), operator, tuple(values), minimum)


def _node_affinity(spec: Json) -> _Affinity:
    raw = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    field = "spec.affinity.nodeAffinity"
    required = raw.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = tuple(
        _term(
            term, f"{field}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
        )
        for i, term in enumerate(required.get("nodeSelectorTerms") or ())
    )
    preferred = tuple(
        PreferredTerm(
            int(entry.get("weight") or 1),
            _term(entry.get("preference") or {}, f"{field}.preferred[{i}]"),
        )
        for i, entry in enumerate(raw.get("preferredDuringSchedulingIgnoredDuringExecution") or ())
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
    raw = spec.get("tolerations") or ()
    if len(raw) > MOST_TOLERATIONS:
        raise InvalidObject(f"more than {MOST_TOLERATIONS} tolerations", field="spec.tolerations")
    return tuple(
        Toleration(
            t.get("key") or "",
            t.get("operator") or "Equal",
            t.get("value") or "",
            t.get("effect") or "",
        )
        for t in raw
    )


def _spread(spec: Json) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            max_skew=int(raw.get("maxSkew") or 1),
            topology_key=keys.normalise(raw["topologyKey"]),
            when_unsatisfiable=raw.get("whenUnsatisfiable") or "DoNotSchedule",
            match_labels=(raw.get("labelSelector") or {}).get("matchLabels") or {},
            expressions=parse_expressions(
                (raw.get("labelSelector") or {}).get("matchExpressions"),
                field=f"spec.topologySpreadConstraints[{index}].labelSelector.matchExpressions",
            ),
            min_domains=raw.get("minDomains"),
            match_label_keys=tuple(raw.get("matchLabelKeys") or ()),
        )
        for index, raw in enumerate(spec.get("topologySpreadConstraints") or ())
    )


def _pod_affinity(spec: Json, kind: str) -> tuple[AffinityTerm, ...]:
    raw = (spec.get("affinity") or {}).get(kind) or {}
    required = [(None, t) for t in raw.get("requiredDuringSchedulingIgnoredDuringExecution") or ()]
    preferred = [
        (int(t.get("weight") or 1), t.get("podAffinityTerm") or {})
        for t in raw.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ]
    return tuple(
        AffinityTerm(
            topology_key=keys.normalise(term.get("topologyKey") or ""),
            match_labels=(term.get("labelSelector") or {}).get("matchLabels") or {},
            expressions=parse_expressions(
                (term.get("labelSelector") or {}).get("matchExpressions"),
                field=f"spec.affinity.{kind}[{index}].labelSelector.matchExpressions",
            ),
            namespaces=tuple(term["namespaces"]) if term.get("namespaces") else None,
            weight=weight,
        )
        for index, (weight, term) in enumerate([*required, *preferred])
    )


def _host_ports(spec: Json) -> tuple[tuple[str, str, int], ...]:
    return tuple(
        (port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", int(port["hostPort"]))
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _volume_claims(pod_name: str, spec: Json) -> tuple[str, ...]:
    """Claim names; a generic ephemeral volume makes ``<pod>-<volume>`` (POD-07)."""
    names = []
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            names.append(str(claim.get("claimName")))
        elif volume.get("ephemeral"):
            names.append(f"{pod_name}-{volume.get('name')}")
    return tuple(names)


def _do_not_disrupt(meta: Json) -> str:
    annotations = meta.get("annotations") or {}
    if annotations.get(keys.DO_NOT_EVICT) == "true":
        return "true"
    return str(annotations.get(keys.DO_NOT_DISRUPT) or "")
