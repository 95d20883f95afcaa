"""dovetail.sh/v1alpha1 InstanceType -> domain record: a custom catalogue for simulations (docs/spec/design.md).

The objects are written by hand, so prices and label values may be numbers or strings, and labels that follow from the
EC2 name or the capacity are optional. An invalid offering is left out, and so is a reservation without a place, as in
a cluster's catalogue; a type with invalid labels, capacity or overhead, or without an offering, has no record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from shared.api.core.label_syntax import LABEL_VALUE_FORM, is_label_value, is_qualified_name
from shared.api.core.metadata import read_metadata
from shared.api.faults import Fault, Path
from shared.api.parsers import INSTANCE_TYPE
from shared.domain import labels as keys
from shared.domain.instance_types import reservations
from shared.domain.instance_types.sizes import DEFAULT_PODS
from shared.domain.instance_types.types import INSTANCE_NAME, InstanceType, Offering
from shared.domain.resources import CPU, MEMORY, PODS, add, parse_amount
from shared.domain.snapshot import OfferingKey
from shared.errors import InvalidObject

API_VERSION, KIND = INSTANCE_TYPE
CAPACITY_TYPES = (keys.ON_DEMAND, keys.SPOT, keys.RESERVED)
OVERHEAD_PARTS = ("kubeReserved", "systemReserved", "evictionThreshold")
"""IT-30: an overhead may be given in these parts; they are added up."""
MOST_OFFERINGS = 1000
MOST_LABELS = 200
RESERVATION_ID = re.compile(r"cr-[0-9a-z]{1,61}")
RESERVATION_TYPES = ("default", reservations.CAPACITY_BLOCK)
MOST_RESERVED_INSTANCES = 1_000_000
LATEST_COUNT_TIME = 2.0**53
"""``counted_at`` of reservations in a file: later than any launch, so running machines are not subtracted again."""
RESERVATION_FIELDS = ("reservationID", "reservationType", "interruptible", "capacity")
"""Fields of an offering that only reserved offerings have."""
HIGHEST_PRICE = Decimal(1_000_000)
"""USD per hour; a higher price is refused as a typing error."""
MICRO = Decimal(1_000_000)
MIB = 1024**2
Json = Mapping[str, Any]
Value = TypeVar("Value")


@dataclass(frozen=True)
class ParsedType:
    """The record, or None for an unusable type; its unavailable offerings; all faults of the object."""

    record: InstanceType | None
    sold_out: frozenset[OfferingKey] = frozenset()
    faults: tuple[Fault, ...] = ()
    price_known: bool = True
    """False: nothing is planned with it before a NodeOverlay says its price."""


def parse_instance_type(raw: Json) -> ParsedType:
    """The type and every fault of its spec. Never raises."""
    reader, name = _Reader(), read_metadata(raw).name
    spec = reader.mapping(raw.get("spec"), ("spec",))
    labels = reader.labels(spec.get("labels"), ("spec", "labels"))
    capacity = reader.amounts(spec.get("capacity"), ("spec", "capacity"))
    overhead = reader.overhead(spec.get("overhead"), ("spec", "overhead"))
    volumes = reader.amounts(spec.get("volumeLimits"), ("spec", "volumeLimits"))
    reader.demand(capacity, name, labels)
    reader.read_price_known(spec.get("priceKnown", True))
    unusable = bool(reader.faults)
    offerings, sold_out = reader.offerings(spec.get("offerings"), name)
    if unusable or not offerings:
        return ParsedType(None, faults=tuple(reader.faults))
    offerings = [one for one in offerings if one.left or not one.reservation_id]
    if not offerings:
        return ParsedType(None, frozenset(sold_out), tuple(reader.faults))
    capacity = {PODS: DEFAULT_PODS, **capacity}
    record = InstanceType(
        name=name,
        labels={**_implied(name, capacity), **labels, **_offering_labels(offerings)},
        capacity=capacity,
        overhead=overhead,
        offerings=tuple(offerings),
        volume_limits=volumes,
    )
    faults = tuple(reader.faults)
    return ParsedType(record, frozenset(sold_out), faults, reader.price_known)


def _implied(name: str, capacity: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Default labels: linux on amd64, and labels that follow from the name and the capacity (IT-40..42)."""
    found = {keys.OS: "linux", keys.ARCH: "amd64", keys.INSTANCE_TYPE: name}
    match = INSTANCE_NAME.match(name)
    if match is not None:
        family, _, size = name.partition(".")
        parts = {"category": match[1], "generation": match[3], "family": family, "size": size}
        found |= {f"{keys.AWS_PREFIX}instance-{part}": value for part, value in parts.items()}
    if capacity.get(CPU, 0) % 1000 == 0:
        found[keys.AWS_PREFIX + "instance-cpu"] = str(capacity.get(CPU, 0) // 1000)
    found[keys.AWS_PREFIX + "instance-memory"] = str(capacity.get(MEMORY, 0) // MIB)
    return {key: (value,) for key, value in found.items() if is_label_value(value)}


def _offering_labels(offerings: list[Offering]) -> dict[str, tuple[str, ...]]:
    reserved = [one for one in offerings if one.reservation_id]
    given = {
        keys.ZONE: {one.zone for one in offerings},
        keys.CAPACITY_TYPE: {one.capacity_type for one in offerings},
        reservations.ID_LABEL: {one.reservation_id for one in reserved},
        reservations.TYPE_LABEL: {one.reservation_type for one in reserved},
        reservations.INTERRUPTIBLE_LABEL: {
            reservations.truth(one.interruptible) for one in reserved
        },
    }
    return {key: tuple(sorted(values)) for key, values in given.items() if values}


def _ordered(offerings: list[Offering]) -> list[Offering]:
    """The offerings with ``order`` set on reserved ones: the on-demand price in the zone, else the lowest (IT-07)."""
    usual = [o for o in offerings if o.capacity_type == keys.ON_DEMAND]
    by_zone = {o.zone: o.price_micro_usd_per_hour for o in usual}
    cheapest = min(by_zone.values(), default=0)
    return [
        replace(o, order=by_zone.get(o.zone, cheapest)) if o.reservation_id else o
        for o in offerings
    ]


@dataclass
class _Reader:
    """Reads the parts of one object and collects their faults."""

    faults: list[Fault] = field(default_factory=list)
    price_known: bool = True

    def read_price_known(self, raw: object) -> None:
        if isinstance(raw, bool):
            self.price_known = raw
        else:
            self.refuse(("spec", "priceKnown"), "must be true or false")

    def refuse(self, path: Path, message: str) -> None:
        self.faults.append(Fault(path, message))

    def attempt(self, read: Callable[[], Value], path: Path) -> Value | None:
        """The value, or None with the fault noted."""
        try:
            return read()
        except InvalidObject as error:
            self.refuse(path, error.fault)
        return None

    def mapping(self, raw: object, path: Path) -> Json:
        if raw is None:
            return {}
        if isinstance(raw, Mapping):
            return raw
        self.refuse(path, "must be an object")
        return {}

    def amounts(self, raw: object, path: Path) -> dict[str, int]:
        """A resource list in the units of ``domain.resources``; invalid entries are faults and left out."""
        found: dict[str, int] = {}
        for name, value in self.mapping(raw, path).items():
            read = partial(parse_amount, str(name), value, field="")
            amount = self.attempt(read, (*path, str(name)))
            if amount is not None:
                found[str(name)] = amount
        return found

    def overhead(self, raw: object, path: Path) -> dict[str, int]:
        given = self.mapping(raw, path)
        parts = [
            self.amounts(given[name], (*path, name)) for name in OVERHEAD_PARTS if name in given
        ]
        whole = {name: value for name, value in given.items() if name not in OVERHEAD_PARTS}
        return add(self.amounts(whole, path), *parts)

    def labels(self, raw: object, path: Path) -> dict[str, tuple[str, ...]]:
        """Label key -> possible values; one value or a list of them."""
        given, found = self.mapping(raw, path), {}
        if len(given) > MOST_LABELS:
            self.refuse(path, f"has more than {MOST_LABELS} labels")
            return {}
        for key, value in given.items():
            place = (*path, str(key))
            if not is_qualified_name(str(key)):
                self.refuse(place, "is not a qualified name such as example.com/team")
            values = [_label_text(one) for one in (value if isinstance(value, list) else [value])]
            known = [one for one in values if one is not None and is_label_value(one)]
            if len(known) != len(values) or not known:
                self.refuse(
                    place, f"must be a label value or a list of label values: {LABEL_VALUE_FORM}"
                )
            found[keys.normalise(str(key))] = tuple(sorted(set(known)))
        return found

    def demand(
        self, capacity: Mapping[str, int], name: str, labels: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Refuse a type without cpu or memory, or with an instance-type label other than its name."""
        if not self.faults:
            for resource in (CPU, MEMORY):
                if not capacity.get(resource):
                    self.refuse(("spec", "capacity", resource), "is required and must not be zero")
        if labels.get(keys.INSTANCE_TYPE, (name,)) != (name,):
            self.refuse(("spec", "labels", keys.INSTANCE_TYPE), f"must be the name, {name}")

    def offerings(self, raw: object, name: str) -> tuple[list[Offering], list[OfferingKey]]:
        """The offerings without faults, and which of them are sold out."""
        path: Path = ("spec", "offerings")
        if not isinstance(raw, list) or not raw:
            self.refuse(path, "needs at least one {zone, capacityType, price}")
            return [], []
        if len(raw) > MOST_OFFERINGS:
            self.refuse(path, f"has more than {MOST_OFFERINGS} offerings")
            return [], []
        found: dict[tuple[OfferingKey, str], Offering] = {}
        sold_out: list[OfferingKey] = []
        for place, given, one in self._each_offering(raw, path):
            key = (one.capacity_type, name, one.zone)
            which = one.reservation_id
            if (key, which) in found:
                which = which or f"{one.zone} {one.capacity_type}"
                self.refuse(place, f"{which} is a duplicate; remove one of the two")
                continue
            gone = given.get("available") is False
            found[key, which] = replace(one, left=0) if gone and which else one
            if gone and not which:
                sold_out.append(key)
        return _ordered([found[key] for key in sorted(found)]), sold_out

    def _each_offering(
        self, raw: list[object], path: Path
    ) -> Iterator[tuple[Path, Json, Offering]]:
        for index, given in enumerate(raw):
            place = (*path, index)
            if not isinstance(given, Mapping):
                self.refuse(place, "must be an object")
                continue
            before = len(self.faults)
            zone = self._zone(given.get("zone"), (*place, "zone"))
            kind = self._capacity_type(given.get("capacityType"), (*place, "capacityType"))
            if not self.price_known and (given.get("price") or kind != keys.ON_DEMAND):
                self.refuse(
                    place, "without a known price there are offerings on-demand, and no price"
                )
            usual = 0 if kind == keys.RESERVED or not self.price_known else None
            price = self._price(given.get("price", usual), (*place, "price"))
            if not isinstance(given.get("available", True), bool):
                self.refuse((*place, "available"), "must be true or false")
            if len(self.faults) == before:
                one = Offering(zone, kind, price)
                one = self._reserved(one, given, place)
                if len(self.faults) == before:
                    yield place, given, one

    def _reserved(self, one: Offering, given: Json, place: Path) -> Offering:
        """``one`` with its reservation, if it has one; reservation fields of other offerings are faults."""
        name = given.get("reservationID")
        present = [key for key in RESERVATION_FIELDS if given.get(key) is not None]
        if name is None or one.capacity_type != keys.RESERVED:
            for key in present:
                self.refuse((*place, key), "needs capacityType reserved and a reservationID")
            return one
        if not isinstance(name, str) or not RESERVATION_ID.fullmatch(name):
            self.refuse((*place, "reservationID"), "must be like cr-0123456789abcdef0")
        kind = given.get("reservationType", RESERVATION_TYPES[0])
        if kind not in RESERVATION_TYPES:
            text = f"must be one of {', '.join(RESERVATION_TYPES)}"
            self.refuse((*place, "reservationType"), text)
        interruptible = given.get("interruptible", False)
        if not isinstance(interruptible, bool):
            self.refuse((*place, "interruptible"), "must be true or false")
        left = given.get("capacity")
        if (
            isinstance(left, bool)
            or not isinstance(left, int)
            or not 0 <= left <= MOST_RESERVED_INSTANCES
        ):
            text = f"must be a whole number from 0 to {MOST_RESERVED_INSTANCES}: the number of available instances"
            self.refuse((*place, "capacity"), text)
            left = 0
        return replace(
            one, reservation_id=str(name), reservation_type=str(kind), left=left,
            interruptible=interruptible is True, counted_at=LATEST_COUNT_TIME,
        )  # fmt: skip

    def _zone(self, raw: object, path: Path) -> str:
        if isinstance(raw, str) and raw and is_label_value(raw):
            return raw
        self.refuse(path, "must be the name of a zone")
        return ""

    def _capacity_type(self, raw: object, path: Path) -> str:
        given = keys.ON_DEMAND if raw is None else raw
        if isinstance(given, str) and given in CAPACITY_TYPES:
            return given
        self.refuse(path, f"must be one of {', '.join(CAPACITY_TYPES)}")
        return ""

    def _price(self, raw: object, path: Path) -> int:
        """Micro-USD per hour."""
        if raw is None:
            self.refuse(path, "is required: USD per hour")
            return 0
        price = _decimal(raw)
        if price is None:
            self.refuse(
                path, f"{str(raw)[:40]!r} is not a price; write USD per hour, such as 0.096"
            )
        elif price < 0:
            self.refuse(path, "must not be negative")
        elif price > HIGHEST_PRICE:
            self.refuse(path, "is more than a million USD per hour; check the unit")
        else:
            return int((price * MICRO).to_integral_value())
        return 0


def _decimal(raw: object) -> Decimal | None:
    """A finite number; None for anything else."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        number = Decimal(str(raw).strip())
    except (InvalidOperation, ValueError):
        return None
    return number if number.is_finite() else None


def _label_text(raw: object) -> str | None:
    if isinstance(raw, bool):
        return "true" if raw else "false"
    return str(raw) if isinstance(raw, str | int) else None
