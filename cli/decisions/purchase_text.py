"""Which decision bought a machine, and what else could have been bought, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.text import Text

Json = Mapping[str, Any]


def bought_text(bought: Json | None) -> str:
    """When, by which decision and for how much; what is not known is left out."""
    if not bought:
        return "not by Dovetail"
    price = bought["pricePerHour"]
    parts = [
        utc_text(bought["at"]),
        f"{bought['instanceType']} of {bought['nodePool'] or 'no pool'}",
        "" if price is None else f"for ${price:.4f} an hour",
        _decision(bought),
        bought["text"],
        bought["reason"],
    ]
    return ", ".join(filter(None, parts))


def utc_text(at: float) -> str:
    """A time in seconds since the epoch, for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _decision(bought: Json) -> str:
    if bought["decision"]:
        return f"decision {bought['decision'][:16]}"
    return "" if bought["text"] else "no decision is noted"


def alternative_lines(found: Json | None) -> Iterator[Text]:
    """The offerings beside the node's own."""
    if not found or not found["taken"]:
        return
    taken = found["taken"]
    yield Text(f"Why {taken['instanceType']}", style="bold")
    yield Text(f"  {found['suiting']} offerings suit, {found['cheaper']} of them cheaper now")
    shown = sorted([*found["others"], taken], key=lambda one: one["pricePerHour"])
    for one in shown:
        place = f"{one['instanceType']} {one['zone']} {one['capacityType']}"
        text = f"  ${one['pricePerHour']:.4f}  {place}: {one['why']}"
        yield Text(text, style="bold" if one is taken else "")
