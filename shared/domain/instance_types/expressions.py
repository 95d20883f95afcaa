"""CEL expressions in the kubelet's settings: amounts that depend on the instance type (EC-11).

``maxPods``, and the entries of ``kubeReserved`` and ``systemReserved``, may be an expression over the variables of
``Variables``, as in Karpenter. It yields a number in the unit of its field (``UNITS``): planner and launcher evaluate
the same text with the same variables, so a node gets what was planned for.

``evaluation`` evaluates them; only scheduler, launcher and commands import it, for the others have no CEL library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from shared.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, parse_quantity
from shared.errors import InvalidObject

LONGEST = 1024
"""Characters of one expression."""
LARGEST = 2**31 - 1
"""The largest result."""


class Variables(NamedTuple):
    """What an expression knows of a type."""

    instance_type: str
    vcpus: int
    memory_mib: int
    default_enis: int
    """Network interfaces of the default network card."""
    ips_per_eni: int
    """IPv4 addresses per network interface."""
    max_pods: int
    """For maxPods: the number without it. For reserved resources: the number of the machine."""


class Unit(NamedTuple):
    """The unit of an expression's result."""

    suffix: str
    factor: int
    """One unit in the resource's own unit of ``shared.domain.resources``."""
    step: int
    """Results are rounded up to a multiple of this, so that similar types share a launch template."""

    def text(self, amount: int) -> str:
        """``amount``, in the resource's own unit, as a quantity."""
        return f"{amount // self.factor}{self.suffix}"


UNITS: Mapping[str, Unit] = {
    CPU: Unit("m", 1, 10),
    MEMORY: Unit("Mi", 1024**2, 16),
    EPHEMERAL_STORAGE: Unit("Gi", 1024**3, 1),
    "pid": Unit("", 1, 1),
}
"""Resource that may be reserved -> unit."""

Texts = tuple[tuple[str, str], ...]
"""Resource -> expression, sorted by name."""


class Expressions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The expressions of one class. Hashable, as the settings that it is a part of."""

    max_pods: str = ""
    kube_reserved: Texts = ()
    system_reserved: Texts = ()

    def __bool__(self) -> bool:
        return bool(self.max_pods or self.kube_reserved or self.system_reserved)

    def named(self) -> Iterator[tuple[str, str]]:
        """(field such as ``kubeReserved[cpu]``, expression) of each."""
        if self.max_pods:
            yield "maxPods", self.max_pods
        for name, texts in self.reserved():
            yield from ((f"{name}[{resource}]", text) for resource, text in texts)

    def reserved(self) -> Iterator[tuple[str, Texts]]:
        """(field, its expressions) of both maps."""
        yield "kubeReserved", self.kube_reserved
        yield "systemReserved", self.system_reserved


def is_expression(amount: object) -> bool:
    """Whether an amount that somebody wrote is no quantity, and so meant as an expression."""
    if not isinstance(amount, str):
        return False
    try:
        parse_quantity(amount, field="")
    except InvalidObject:
        return True
    return False


def units_of(resource: str, value: int) -> int:
    """A result for ``resource``, rounded up as UNITS says."""
    step = UNITS[resource].step
    return -(-value // step) * step


def parted(kubelet: Mapping[str, object]) -> tuple[dict[str, object], Expressions]:
    """Kubelet settings without their expressions, and these."""
    plain, found = dict(kubelet), {}
    if isinstance(plain.get("maxPods"), str):
        found["max_pods"] = plain.pop("maxPods")
    for field, name in (("kubeReserved", "kube_reserved"), ("systemReserved", "system_reserved")):
        written = plain.get(field)
        if not isinstance(written, Mapping):
            continue
        texts = {key: one for key, one in written.items() if is_expression(one)}
        if texts:
            plain[field] = {key: one for key, one in written.items() if key not in texts}
            found[name] = tuple(sorted(texts.items()))
    return plain, msgspec.convert(found, Expressions)
