"""What a pod asks for with its claims: alternatives, each with the devices that it needs at once.

A claim or a class that cannot be understood raises InvalidObject with the claim, the request and the fix; the pod waits
with that text and others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import islice, product

import msgspec

from shared.domain.devices.records import (
    ALL,
    ClaimSpec,
    ClaimTemplate,
    DeviceClass,
    PodClaim,
    Request,
    ResourceClaim,
    Wanted,
)
from shared.domain.devices.selectors import expression_fault
from shared.domain.expressions import Toleration
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject

MOST_COMBINATIONS = 16
"""Of the alternatives of all requests of a pod, in order of preference; the others are not tried."""


class Predicate(msgspec.Struct, frozen=True):
    """What a device must be like. Equal predicates select equal devices."""

    device_class: str
    selectors: tuple[str, ...]
    """Of the class and of the request: all must hold."""
    tolerations: tuple[Toleration, ...] = ()
    capacity: tuple[tuple[str, int], ...] = ()
    """Capacity -> the least amount, sorted."""


class Ask(msgspec.Struct, frozen=True):
    """So many devices of a kind, or all of a node. ``where``: claim and request, as messages name them."""

    predicate: Predicate
    count: int
    takes_all: bool = False
    admin: bool = False
    name: str = ""
    """Of the request, or ``request/alternative``."""
    where: str = ""


class Rule(msgspec.Struct, frozen=True):
    """The devices of these asks (indices) have one value of the attribute, or each another one."""

    attribute: str
    asks: tuple[int, ...]
    distinct: bool = False


class Alternative(msgspec.Struct, frozen=True):
    """What a pod needs at once."""

    asks: tuple[Ask, ...]
    rules: tuple[Rule, ...] = ()


class Claims:
    """The claims, templates and classes of a cluster, indexed when the first pod needs them."""

    def __init__(
        self,
        claims: Iterable[ResourceClaim],
        templates: Iterable[ClaimTemplate],
        classes: Iterable[DeviceClass],
    ) -> None:
        self._claims, self._templates, self._classes = (
            tuple(claims),
            tuple(templates),
            tuple(classes),
        )

    @cached_property
    def _by_key(self) -> Mapping[str, ResourceClaim]:
        return {one.key: one for one in self._claims}

    @cached_property
    def _templates_by_key(self) -> Mapping[str, ClaimTemplate]:
        return {one.key: one for one in self._templates}

    @cached_property
    def _classes_by_name(self) -> Mapping[str, DeviceClass]:
        return {one.name: one for one in self._classes}

    def of(self, pod: Pod) -> list[ResourceClaim]:
        """The claims of a pod that exist."""
        keys = (f"{pod.namespace}/{one.claim}" for one in pod.device_claims if one.claim)
        return [self._by_key[key] for key in dict.fromkeys(keys) if key in self._by_key]

    def alternatives(
        self, pod: Pod, *, settled: bool, without: frozenset[str]
    ) -> tuple[Alternative, ...]:
        """What the pod needs, the preferred alternative first. ``settled``: claims that are allocated need nothing
        more; ``without``: keys of claims that count for other pods. Raises InvalidObject."""
        parts = [
            self._of_claim(one, pod, settled=settled)
            for one in _distinct(pod.device_claims)
            if not one.needless and f"{pod.namespace}/{one.claim}" not in without
        ]
        return tuple(_joined(one) for one in islice(product(*parts), MOST_COMBINATIONS))

    def of_claim(self, claim: ResourceClaim) -> list[Alternative]:
        """What one claim asks for, the preferred alternative first. Raises InvalidObject."""
        where = f'resource claim "{claim.key}"'
        _check(where, claim.faults)
        return self._of_spec(claim.spec, where)

    def _of_claim(self, one: PodClaim, pod: Pod, *, settled: bool) -> list[Alternative]:
        where, spec, done = self._spec(one, pod)
        if settled and done:
            return [Alternative(())]
        return self._of_spec(spec, where)

    def _of_spec(self, spec: ClaimSpec, where: str) -> list[Alternative]:
        choices = [self._choices(request, where) for request in spec.requests]
        return [_alternative(spec, found) for found in islice(product(*choices), MOST_COMBINATIONS)]

    def _spec(self, one: PodClaim, pod: Pod) -> tuple[str, ClaimSpec, bool]:
        """(how messages name it, what is asked for, whether it is allocated)."""
        claim = self._by_key.get(f"{pod.namespace}/{one.claim}") if one.claim else None
        if claim is not None:
            where = f'resource claim "{claim.key}"'
            _check(where, claim.faults)
            if claim.terminating:
                raise InvalidObject(
                    "is being deleted; create it again once it is gone", field=where
                )
            return where, claim.spec, claim.is_allocated
        if not one.template:
            where = f'resource claim "{pod.namespace}/{one.claim}"'
            raise InvalidObject("does not exist or cannot be read; create it", field=where)
        key = f"{pod.namespace}/{one.template}"
        where = f'resource claim template "{key}"'
        template = self._templates_by_key.get(key)
        if template is None:
            raise InvalidObject("does not exist or cannot be read; create it", field=where)
        _check(where, template.faults)
        return template.title or where, template.spec, False

    def _choices(self, request: Request, where: str) -> list[Ask]:
        return [self._ask(wanted, where) for wanted in request.alternatives]

    def _ask(self, wanted: Wanted, where: str) -> Ask:
        where = f'{where}, request "{wanted.name}"'
        device_class = self._classes_by_name.get(wanted.device_class)
        if device_class is None:
            text = (
                f'device class "{wanted.device_class}" does not exist or cannot be read; create it'
            )
            raise InvalidObject(text, field=where)
        selectors = (*device_class.selectors, *wanted.selectors)
        for expression in selectors:
            if fault := expression_fault(expression):
                raise InvalidObject(f"selector {_quoted(expression)}: {fault}", field=where)
        predicate = Predicate(
            wanted.device_class,
            selectors,
            wanted.tolerations,
            tuple(sorted(wanted.capacity.items())),
        )
        return Ask(predicate, wanted.count, wanted.mode == ALL, wanted.admin, wanted.name, where)


def _quoted(expression: str) -> str:
    return expression if len(expression) <= 80 else f"{expression[:77]}..."


def _check(where: str, faults: tuple[str, ...]) -> None:
    if faults:
        raise InvalidObject("; ".join(faults), field=where)


def _distinct(claims: Iterable[PodClaim]) -> list[PodClaim]:
    """A claim that a pod names twice is one claim; each entry with a template makes a claim of its own."""
    return list({one.claim or (one.name, one.template): one for one in claims}.values())


def _alternative(spec: ClaimSpec, asks: tuple[Ask, ...]) -> Alternative:
    rules = []
    for one in spec.constraints:
        chosen = tuple(at for at, ask in enumerate(asks) if _concerns(one.requests, ask.name))
        rules.append(Rule(one.match or one.distinct, chosen, bool(one.distinct)))
    return Alternative(asks, tuple(rules))


def _concerns(requests: tuple[str, ...], name: str) -> bool:
    """Does a constraint on these requests (none: on all) concern the devices of this one?"""
    return not requests or name in requests or name.partition("/")[0] in requests


def _joined(parts: Iterable[Alternative]) -> Alternative:
    """The alternatives of several claims as one."""
    asks: list[Ask] = []
    rules: list[Rule] = []
    for part in parts:
        rules += [
            msgspec.structs.replace(one, asks=tuple(len(asks) + at for at in one.asks))
            for one in part.rules
        ]
        asks += part.asks
    return Alternative(tuple(asks), tuple(rules))
