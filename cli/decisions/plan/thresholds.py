"""``--fail-on``: limits that a change must keep, such as ``cost>+5%,unschedulable>0``. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from cli.decisions.plan.comparison import Effect
from shared.errors import ConfigurationError

MEASURES = {
    "cost": "dollars an hour, or a percentage of what the cluster costs without the changes",
    "unschedulable": "pods",
    "disrupted": "machines, or a percentage of all machines",
    "staying": "machines that drift and are held",
}
_FORM = re.compile(r"(?P<name>[a-z]+)>\+?(?P<amount>[0-9]{1,9}(\.[0-9]{1,6})?)(?P<percent>%?)")
WITHOUT_PERCENT = ("unschedulable", "staying")


class Threshold(NamedTuple):
    """``most``: the largest value that is allowed."""

    text: str
    name: str
    most: float
    in_percent: bool


def read_thresholds(text: str) -> list[Threshold]:
    """Thresholds separated by commas. Raises ConfigurationError that names the wrong one."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _FORM.fullmatch(part.replace(" ", ""))
        name = match["name"] if match else ""
        if match is None or name not in MEASURES:
            raise ConfigurationError(
                f"--fail-on: {part[:40]!r} is none of {', '.join(f'{one}>N' for one in MEASURES)}; "
                "write for example cost>+5%,unschedulable>0,disrupted>20%"
            )
        if match["percent"] and name in WITHOUT_PERCENT:
            raise ConfigurationError(f"--fail-on: {name} is a number of {MEASURES[name]}, not %")
        found.append(Threshold(part, name, float(match["amount"]), bool(match["percent"])))
    return found


def exceeded(thresholds: list[Threshold], effect: Effect) -> list[str]:
    """The thresholds that the effect exceeds, with its value."""
    values = [(one, _value(one, effect)) for one in thresholds]
    return [
        f"{one.text}: {value:g}{'%' if one.in_percent else ''}"
        for one, value in values
        if value > one.most
    ]


def _value(one: Threshold, effect: Effect) -> float:
    if one.name == "cost":
        return (
            _share(effect.cost_change, effect.without.cost_after)
            if one.in_percent
            else (effect.cost_change / 1e6)
        )
    if one.name == "disrupted":
        number = len(effect.disrupted)
        return _share(number, effect.machines) if one.in_percent else number
    return len(effect.unschedulable if one.name == "unschedulable" else effect.staying)


def _share(part: int, whole: int) -> float:
    """In percent, with six digits; a part of nothing is more than any share."""
    if not whole:
        return 0.0 if part <= 0 else float("inf")
    return round(100.0 * part / whole, 6)
