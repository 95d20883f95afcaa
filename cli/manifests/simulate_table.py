"""A simulation's answer as lines of text: machines, existing nodes, reasons of pending pods, cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from cli.text import counted

HEADINGS = ("MACHINE", "POOL", "TYPE", "ZONE", "CAPACITY", "$/H", "PODS", "CPU", "MEMORY")
NAMED_PODS = 3
"""Pods named per reason. Further pods are counted."""


def table_lines(answer: dict[str, Any]) -> Iterator[str]:
    """All lines, without colours. Column widths follow the content."""
    rows = [_machine_row(one) for one in answer["machines"]]
    if rows:
        yield from _aligned([HEADINGS, *rows])
    for one in answer["existing"]:
        yield f"existing {one['node']}: {counted(len(one['pods']), 'pod')}"
    yield from _reasons(answer["unschedulable"])
    yield _summary(answer)


def _machine_row(machine: dict[str, Any]) -> tuple[str, ...]:
    offering, requests = machine["offering"], machine["requests"]
    return (
        machine["name"],
        machine["nodePool"],
        offering["instanceType"],
        offering["zone"],
        offering["capacityType"],
        f"{offering['price']:.4f}",
        str(len(machine["pods"])),
        requests.get("cpu", "0"),
        requests.get("memory", "0"),
    )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _reasons(unschedulable: list[dict[str, str]]) -> Iterator[str]:
    """One line per reason: hundreds of pods of one Deployment may have the same reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for one in unschedulable:
        by_reason[one["reason"]].append(one["pod"])
    for reason, pods in by_reason.items():
        more = f" and {len(pods) - NAMED_PODS} more" if len(pods) > NAMED_PODS else ""
        yield f"pending {', '.join(pods[:NAMED_PODS])}{more}: {reason}"


def _summary(answer: dict[str, Any]) -> str:
    cost, stats = answer["cost"], answer["stats"]
    bound = cost["lowerBound"]
    parts = [
        counted(len(answer["machines"]), "machine"),
        f"${cost['hourly']:.4f} per hour" + ("" if bound is None else f" (at least ${bound:.4f})"),
        f"{counted(stats['pods'], 'pod')} of {counted(stats['classes'], 'kind')}",
        f"{len(answer['unschedulable'])} pending",
        f"{answer['policy']}, {stats['seconds']:.3f} s",
    ]
    return ", ".join(parts)
