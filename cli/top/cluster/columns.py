"""The columns of the node table: what stands in their cells, and how wide they are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from rich.text import Text

from cli.top.cells import age, bar, dollars, percent, safe
from cli.top.cluster.rows import FAULTS, By, Row

_STATE_STYLES = {
    "ready": "green",
    "launching": "cyan",
    "registering": "cyan",
    "initializing": "cyan",
    "draining": "yellow",
    "terminating": "yellow",
}


class Moment(NamedTuple):
    """What cells depend on besides their row: ``now``, seconds since the epoch, and the length of a bar in cells."""

    now: float
    bar: int


class Column(NamedTuple):
    """A column. It may be cut to ``least`` cells before a column is left out; ``most`` is its widest."""

    heading: str
    cell: Callable[[Row, Moment], Text]
    least: int
    most: int
    right: bool = False


def _name(row: Row, moment: Moment) -> Text:
    """Without the domain, which is the same for all nodes. A machine stands for the node that it will become."""
    node = row.node
    if node.name:
        return Text(safe(node.name.partition(".")[0]))
    return Text(safe(node.machine or node.id), style="dim")


def _state(row: Row, moment: Moment) -> Text:
    """State, how long it is until the instance ends by force, and marks: the end is cut off first."""
    node = row.node
    state = Text().append(safe(node.state), style=_STATE_STYLES.get(node.state, ""))
    if node.deadline is not None:
        state.append(f" ends in {age(node.deadline - moment.now)}", style="bold red")
    for mark in node.marks:
        state.append(" ").append(safe(mark), style="bold red" if mark in FAULTS else "magenta")
    return state


def _price(row: Row, moment: Moment) -> Text:
    return Text(dollars(row.node.price))


def _age(row: Row, moment: Moment) -> Text:
    return Text(age(moment.now - row.node.created))


def _cpu(row: Row, moment: Moment) -> Text:
    return _load(row.cpu, row.node.cpu, percent(row.cpu, row.node.cpu), moment)


def _memory(row: Row, moment: Moment) -> Text:
    return _load(row.memory, row.node.memory, percent(row.memory, row.node.memory), moment)


def _pods(row: Row, moment: Moment) -> Text:
    return _load(row.pods, row.node.pod_limit, Text(f"{row.pods}/{row.node.pod_limit}"), moment)


def _load(used: int, allocatable: int, words: Text, moment: Moment) -> Text:
    if not moment.bar:
        return words
    return Text.assemble(bar(used, allocatable, moment.bar), " ", words)


def _plain(name: str) -> Callable[[Row, Moment], Text]:
    return lambda row, moment: Text(safe(getattr(row.node, name)))


COLUMNS: Mapping[str, Column] = {
    "name": Column("name", _name, least=15, most=40),
    "pool": Column("pool", _plain("pool"), least=12, most=24),
    "type": Column("type", _plain("type"), least=12, most=18),
    "zone": Column("zone", _plain("zone"), least=10, most=16),
    "capacity": Column("capacity", _plain("capacity_type"), least=9, most=12),
    "price": Column("$/h", _price, least=8, most=10, right=True),
    "age": Column("age", _age, least=6, most=8, right=True),
    "state": Column("state", _state, least=14, most=80),
    "cpu": Column("cpu", _cpu, least=15, most=20),
    "memory": Column("mem", _memory, least=15, most=20),
    "pods": Column("pods", _pods, least=18, most=24),
    "why": Column("why", lambda row, moment: Text(safe(row.node.why), "dim"), least=16, most=600),
}
_ALL = ("name", "type", "zone", "capacity", "price", "age", "state", "cpu", "memory", "pods", "why")
LAYOUTS = (
    (10, 30, _ALL),
    (5, 30, _ALL),
    (5, 30, _ALL[:-1]),
    (5, 24, ("name", "type", "capacity", "price", "age", "state", "cpu", "memory", "pods")),
    (0, 14, ("name", "type", "capacity", "price", "age", "state", "cpu", "memory", "pods")),
    (0, 14, ("name", "type", "price", "age", "state", "cpu", "memory", "pods")),
    (0, 14, ("name", "age", "state", "cpu", "memory", "pods")),
    (0, 14, ("name", "state", "cpu", "memory")),
    (0, 14, ("name", "state")),
)
"""(cells of a bar, least cells of the state, columns), from wide to narrow. A short state is worse than a short bar."""


def columns_by(names: tuple[str, ...], by: By) -> list[str]:
    """The columns of a layout, with the pool in place of the property that groups the nodes."""
    return ["pool" if name == by else name for name in names]
