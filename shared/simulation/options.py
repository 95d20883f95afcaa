"""Options of a simulation, with the same names on the command line and in a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from shared.domain.pools.node_price import ALLOWED, read_node_price
from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.resources import CPU, parse_amount
from shared.errors import ConfigurationError, InvalidObject
from shared.solver.placement.planned_machines import MinValuesPolicy
from shared.solver.placement.relaxation import PreferencePolicy
from shared.solver.pools.expander import Expander
from shared.solver.solve import SolverSettings

MOST_EFFORT = 60_000
PRIORITY_CUTOFF = "expendable-pods-priority-cutoff"
MOST_PRIORITY = 2_000_000_000
"""Of pods, and the least with a minus."""
NAMES = (
    "region",
    "policy",
    "effort",
    "preference-policy",
    "min-values-policy",
    "max-node-cpu",
    "node-price",
    "expander",
    PRIORITY_CUTOFF,
)


@dataclass(frozen=True)
class Options:
    """The options. ``region``: empty means the region of the available catalogue."""

    settings: SolverSettings
    region: str


def read_options(given: Mapping[str, str]) -> Options:
    """Reads options by name (see NAMES). Raises ConfigurationError that names the option and its choices."""
    unknown = sorted(set(given) - set(NAMES))
    if unknown:
        raise ConfigurationError(
            f"unknown option {unknown[0][:40]!r}; the options are {', '.join(NAMES)}"
        )
    usual = SolverSettings()
    settings = SolverSettings(
        packing_policy=_choice(given, "policy", PackingPolicy),
        preference_policy=_choice(given, "preference-policy", PreferencePolicy),
        min_values_policy=_choice(given, "min-values-policy", MinValuesPolicy),
        effort=_effort(given.get("effort"), usual.effort),
        most_node_cpu_milli=_cpu(given.get("max-node-cpu")),
        node_price_micro_usd=_node_price(given.get("node-price")),
        expander=_choice(given, "expander", Expander),
        priority_cutoff=_priority(given.get(PRIORITY_CUTOFF)),
    )
    return Options(settings, given.get("region", ""))


def _choice(given: Mapping[str, str], name: str, choices: type[StrEnum]) -> str:
    """The chosen policy; the first one is the usual one."""
    chosen = given.get(name, next(iter(choices)))
    if chosen not in tuple(choices):
        raise ConfigurationError(
            f"{name} must be {' or '.join(filter(None, choices))}, not {chosen[:40]!r}"
        )
    return chosen


def _effort(given: str | None, default: int) -> int:
    if given is None:
        return default
    if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given) <= MOST_EFFORT):
        raise ConfigurationError(f"effort must be a whole number from 0 to {MOST_EFFORT}")
    return int(given)


def _node_price(given: str | None) -> int | None:
    if given is None:
        return None
    found = read_node_price(given)
    if found is None:
        raise ConfigurationError(f"node-price must be {ALLOWED}, not {given[:40]!r}")
    return found


def _cpu(given: str | None) -> int | None:
    if given is None:
        return None
    try:
        amount = parse_amount(CPU, given, field="max-node-cpu")
    except InvalidObject as error:
        raise ConfigurationError(error.message) from error
    if amount < 1:
        raise ConfigurationError("max-node-cpu must be more than zero cores")
    return amount


def _priority(given: str | None) -> int | None:
    if given is None:
        return None
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ConfigurationError(f"{PRIORITY_CUTOFF} must be a whole number, such as -10")
    if abs(int(given)) > MOST_PRIORITY:
        raise ConfigurationError(f"{PRIORITY_CUTOFF} must be within +-{MOST_PRIORITY}")
    return int(given)
