"""resource.k8s.io/v1 -> domain records.

A claim or template with fields that cannot be read still becomes a record: its ``faults`` name them, and its pods wait
with that text. A slice or a class with a fault is left out, and the fault is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from shared.api.core.expressions import parse_expressions
from shared.api.shapes import entries, mapping, text, text_list, texts
from shared.concurrency.clock import parse_rfc3339
from shared.domain.devices.records import (
    ALL,
    EXACT,
    Allocated,
    Attribute,
    CapacityPolicy,
    ClaimSpec,
    ClaimTemplate,
    Constraint,
    Counters,
    Device,
    DeviceClass,
    DeviceTaint,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.domain.expressions import Expression, Toleration
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

Json = Mapping[str, Any]
MOST_REQUESTS, MOST_ALTERNATIVES, MOST_CONSTRAINTS = 32, 8, 32
"""As Kubernetes allows."""
MOST_COUNT = 1024
LARGEST = 2**61
"""The planner adds amounts of this size without overflow."""


def parse_device_class(raw: Json) -> DeviceClass:
    """The record of a DeviceClass. Raises InvalidObject naming the field."""
    meta, spec = raw["metadata"], mapping(raw.get("spec"), "spec")
    return DeviceClass(
        meta["uid"],
        meta["name"],
        _selectors(spec, "spec"),
        text(spec.get("extendedResourceName"), "spec.extendedResourceName"),
        parse_rfc3339(meta["creationTimestamp"]) if meta.get("creationTimestamp") else 0.0,
    )


def parse_resource_slice(raw: Json) -> ResourceSlice:
    """The record of a ResourceSlice. Raises InvalidObject naming the field."""
    meta, spec = raw["metadata"], mapping(raw.get("spec"), "spec")
    pool, driver = mapping(spec.get("pool"), "spec.pool"), text(spec.get("driver"), "spec.driver")
    return ResourceSlice(
        uid=meta["uid"],
        name=meta["name"],
        driver=driver,
        pool=text(pool.get("name"), "spec.pool.name"),
        node_name=text(spec.get("nodeName"), "spec.nodeName"),
        pool_generation=_count(pool, "generation", "spec.pool", 0),
        pool_slices=_count(pool, "resourceSliceCount", "spec.pool", 1),
        devices=read_devices(spec.get("devices"), driver, "spec.devices"),
        counters=read_counter_sets(spec.get("sharedCounters"), "spec.sharedCounters"),
    )


def read_devices(value: object, driver: str, field: str) -> tuple[Device, ...]:
    """The devices of a slice. Raises InvalidObject naming the field."""
    found = entries(value, field)
    return tuple(_device(one, driver, f"{field}[{index}]") for index, one in enumerate(found))


def read_counter_sets(value: object, field: str) -> Counters:
    """The counter sets of a slice. Raises InvalidObject naming the field."""
    return _counter_sets(value, field, "name")


def parse_resource_claim(raw: Json) -> ResourceClaim:
    """The record of a ResourceClaim. Never raises for invalid fields of its spec."""
    meta = raw["metadata"]
    spec, faults = _spec_or_faults(raw.get("spec"), "spec")
    claim = ResourceClaim(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        spec=spec,
        terminating=bool(meta.get("deletionTimestamp")),
        faults=faults,
    )
    return _with_status(claim, mapping(raw.get("status"), "status"))


def parse_claim_template(raw: Json) -> ClaimTemplate:
    """The record of a ResourceClaimTemplate. Never raises for invalid fields of its spec."""
    meta, field = raw["metadata"], "spec.spec"
    outer = mapping(raw.get("spec"), "spec")
    spec, faults = _spec_or_faults(outer.get("spec"), field)
    return ClaimTemplate(meta["uid"], meta["namespace"], meta["name"], spec, faults)


def _selectors(raw: Json, field: str) -> tuple[str, ...]:
    found = []
    for index, one in enumerate(entries(raw.get("selectors"), f"{field}.selectors")):
        place = f"{field}.selectors[{index}].cel"
        expression = text(mapping(one.get("cel"), place).get("expression"), f"{place}.expression")
        if not expression.strip():
            raise InvalidObject("is required", field=f"{place}.expression")
        found.append(expression.strip())
    return tuple(found)


def _device(raw: Json, driver: str, field: str) -> Device:
    attributes: dict[str, Attribute] = {}
    versions: dict[str, str] = {}
    for name, value in mapping(raw.get("attributes"), f"{field}.attributes").items():
        _read_attribute(
            qualified(name, driver), value, f"{field}.attributes[{name}]", attributes, versions
        )
    place = f"{field}.capacity"
    capacity = {
        qualified(name, driver): mapping(one, f"{place}[{name}]")
        for name, one in mapping(raw.get("capacity"), place).items()
    }
    return Device(
        name=text(raw.get("name"), f"{field}.name"),
        attributes=attributes,
        versions=versions,
        capacity={
            n: _floor(one.get("value"), f"{place}[{n}].value") for n, one in capacity.items()
        },
        policies={
            name: _policy(one["requestPolicy"], f"{place}[{name}].requestPolicy")
            for name, one in capacity.items()
            if one.get("requestPolicy")
        },
        consumes=_counter_sets(
            raw.get("consumesCounters"), f"{field}.consumesCounters", "counterSet"
        ),
        taints=tuple(
            _taint(t, f"{field}.taints") for t in entries(raw.get("taints"), f"{field}.taints")
        ),
        shared=raw.get("allowMultipleAllocations") is True,
    )


def qualified(name: str, driver: str) -> str:
    """The name with its domain, which is the driver's where none is written."""
    return name if "/" in name else f"{driver}/{name}"


def _read_attribute(
    name: str,
    value: object,
    field: str,
    attributes: dict[str, Attribute],
    versions: dict[str, str],
) -> None:
    kinds = mapping(value, field)
    if "version" in kinds:
        versions[name] = text(kinds["version"], f"{field}.version")
        return
    found = [kinds[kind] for kind in ("string", "int", "bool") if kind in kinds]
    if len(found) != 1 or not isinstance(found[0], str | int) or _is_too_large(found[0]):
        raise InvalidObject("needs one of string, int, bool and version", field=field)
    attributes[name] = found[0]


def _is_too_large(value: str | int) -> bool:
    """Beyond Kubernetes' int64?"""
    return isinstance(value, int) and not -LARGEST <= value <= LARGEST


def _counter_sets(value: object, field: str, name: str) -> Counters:
    found: Counters = {}
    for index, one in enumerate(entries(value, field)):
        place = f"{field}[{index}]"
        counters = mapping(one.get("counters"), f"{place}.counters")
        found[text(one.get(name), f"{place}.{name}")] = {
            counter: _floor(
                mapping(amount, place).get("value"), f"{place}.counters[{counter}].value"
            )
            for counter, amount in counters.items()
        }
    return found


def _policy(value: object, field: str) -> CapacityPolicy:
    raw = mapping(value, field)
    limits = mapping(raw.get("validRange"), f"{field}.validRange")
    listed = raw.get("validValues")
    if listed is not None and not isinstance(listed, list):
        raise InvalidObject("must be a list", field=f"{field}.validValues")

    def optional(source: Json, name: str) -> int | None:
        return None if source.get(name) is None else _ceiling(source[name], f"{field}.{name}")

    return CapacityPolicy(
        default=optional(raw, "default"),
        least=optional(limits, "min"),
        step=optional(limits, "step"),
        most=optional(limits, "max"),
        values=tuple(sorted(_ceiling(one, f"{field}.validValues") for one in listed or ())),
    )


def _taint(raw: Json, field: str) -> DeviceTaint:
    return DeviceTaint(
        *(text(raw.get(name), f"{field}.{name}") for name in ("key", "effect", "value"))
    )


def _spec_or_faults(value: object, field: str) -> tuple[ClaimSpec, tuple[str, ...]]:
    try:
        return _claim_spec(mapping(value, field), field), ()
    except InvalidObject as error:
        return ClaimSpec(), (str(error),)


def _claim_spec(spec: Json, field: str) -> ClaimSpec:
    field = f"{field}.devices"
    devices = mapping(spec.get("devices"), field)
    asked = _bounded(devices, "requests", field, MOST_REQUESTS)
    limits = _bounded(devices, "constraints", field, MOST_CONSTRAINTS)
    return ClaimSpec(
        tuple(_request(one, f"{field}.requests[{at}]") for at, one in enumerate(asked)),
        tuple(_constraint(one, f"{field}.constraints[{at}]") for at, one in enumerate(limits)),
    )


def _bounded(raw: Json, name: str, field: str, most: int) -> list[Json]:
    found = entries(raw.get(name), f"{field}.{name}")
    if len(found) > most:
        raise InvalidObject(f"has more than {most} entries", field=f"{field}.{name}")
    return found


def _request(raw: Json, field: str) -> Request:
    name = text(raw.get("name"), f"{field}.name")
    if raw.get("exactly") is not None:
        exactly = mapping(raw["exactly"], f"{field}.exactly")
        return Request(name, (_wanted(exactly, name, f"{field}.exactly"),))
    ordered = _bounded(raw, "firstAvailable", field, MOST_ALTERNATIVES)
    if not ordered:
        raise InvalidObject("needs exactly or firstAvailable", field=field)
    found = []
    for index, one in enumerate(ordered):
        place = f"{field}.firstAvailable[{index}]"
        found.append(_wanted(one, f"{name}/{text(one.get('name'), f'{place}.name')}", place))
    return Request(name, tuple(found))


def _wanted(raw: Json, name: str, field: str) -> Wanted:
    device_class = text(raw.get("deviceClassName"), f"{field}.deviceClassName")
    if not device_class:
        raise InvalidObject("is required", field=f"{field}.deviceClassName")
    mode = text(raw.get("allocationMode"), f"{field}.allocationMode") or EXACT
    if mode not in (EXACT, ALL):
        message = f"must be {EXACT} or {ALL}; Dovetail does not know {mode[:40]!r}"
        raise InvalidObject(message, field=f"{field}.allocationMode")
    place = f"{field}.capacity.requests"
    asked = mapping(mapping(raw.get("capacity"), f"{field}.capacity").get("requests"), place)
    return Wanted(
        name=name,
        device_class=device_class,
        selectors=_selectors(raw, field),
        mode=mode,
        count=_count(raw, "count", field, 1),
        admin=raw.get("adminAccess") is True,
        tolerations=tuple(
            _toleration(one, f"{field}.tolerations")
            for one in entries(raw.get("tolerations"), f"{field}.tolerations")
        ),
        capacity={key: _ceiling(amount, f"{place}[{key}]") for key, amount in asked.items()},
    )


def _toleration(raw: Json, field: str) -> Toleration:
    names = ("key", "operator", "value", "effect")
    key, operator, value, effect = (text(raw.get(name), f"{field}.{name}") for name in names)
    return Toleration(key, operator or "Equal", value, effect)


def _constraint(raw: Json, field: str) -> Constraint:
    match = text(raw.get("matchAttribute"), f"{field}.matchAttribute")
    distinct = text(raw.get("distinctAttribute"), f"{field}.distinctAttribute")
    if bool(match) == bool(distinct):
        message = "needs matchAttribute or distinctAttribute; Dovetail knows no other constraint"
        raise InvalidObject(message, field=field)
    return Constraint(match, distinct, text_list(raw.get("requests"), f"{field}.requests"))


def _with_status(claim: ResourceClaim, status: Json) -> ResourceClaim:
    allocation = mapping(status.get("allocation"), "status.allocation")
    devices = mapping(allocation.get("devices"), "status.allocation.devices")
    terms = mapping(allocation.get("nodeSelector"), "status.allocation.nodeSelector")
    nodes, names = _places(entries(terms.get("nodeSelectorTerms"), "nodeSelectorTerms"))
    return ResourceClaim(
        uid=claim.uid,
        namespace=claim.namespace,
        name=claim.name,
        spec=claim.spec,
        is_allocated=bool(allocation),
        devices=tuple(_allocated(one) for one in entries(devices.get("results"), "results")),
        nodes=nodes,
        node_names=names,
        reserved_for=tuple(
            text(one.get("uid"), "status.reservedFor.uid")
            for one in entries(status.get("reservedFor"), "status.reservedFor")
        ),
        terminating=claim.terminating,
        faults=claim.faults,
    )


def _places(terms: list[Json]) -> tuple[tuple[tuple[Expression, ...], ...], tuple[str, ...]]:
    """Terms on labels, and names of nodes."""
    nodes: list[tuple[Expression, ...]] = []
    names: list[str] = []
    for term in terms:
        for one in entries(term.get("matchFields"), "matchFields"):
            names += text_list(one.get("values"), "matchFields.values")
        if term.get("matchExpressions"):
            nodes.append(parse_expressions(term["matchExpressions"], field="matchExpressions"))
    return tuple(nodes), tuple(names)


def _allocated(raw: Json) -> Allocated:
    field = "status.allocation.devices.results"
    driver, pool, device = (text(raw.get(n), f"{field}.{n}") for n in ("driver", "pool", "device"))
    consumed = texts(raw.get("consumedCapacity"), f"{field}.consumedCapacity")
    amounts = {
        qualified(name, driver): _ceiling(value, f"{field}.consumedCapacity[{name}]")
        for name, value in consumed.items()
    }
    return Allocated(driver, pool, device, raw.get("adminAccess") is True, amounts)


def _count(raw: Json, name: str, field: str, default: int) -> int:
    found = raw.get(name)
    if found is None or (name == "count" and found == 0):
        return default
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= LARGEST:
        raise InvalidObject("must be a whole number above zero", field=f"{field}.{name}")
    if name == "count" and found > MOST_COUNT:
        raise InvalidObject(f"must be at most {MOST_COUNT}", field=f"{field}.{name}")
    return found


def _floor(value: object, field: str) -> int:
    return _whole(value, field, ROUND_FLOOR)


def _ceiling(value: object, field: str) -> int:
    return _whole(value, field, ROUND_CEILING)


def _whole(value: object, field: str, rounding: str) -> int:
    """A quantity from zero to ``LARGEST``, which no device reaches."""
    amount = min(max(parse_quantity(value, field=field), Decimal(0)), Decimal(LARGEST))
    return int(amount.to_integral_value(rounding))
