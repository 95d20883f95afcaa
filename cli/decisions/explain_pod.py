"""``dovetail explain pod``: why a pod is pending and the smallest change for it, or what bought its node."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.decisions.purchase_text import bought_text
from cli.kubectl import names
from cli.manifests.simulate import catalogue_of, documents_of, snapshot_of
from cli.operations.scheduler_status import compute, named, scheduler_url
from cli.options import OutputOption
from cli.printing import print_answer
from cli.stack.environment import StackOption, variables_of
from local.stack import DEFAULT_DIRECTORY
from shared.domain.snapshot import Snapshot
from shared.errors import ConfigurationError, NotFound
from shared.simulation.changes.answer import document_of
from shared.simulation.changes.search import explain_pod
from shared.simulation.simulate import counting_devices
from shared.solver.solve import SolverSettings

LISTED_BY = "kubectl get pods -A"
MOST_POOLS = 5
"""Pools shown for people; -o json has all."""


NameArgument = Annotated[
    str, typer.Argument(help="A pod: NAME or NAMESPACE/NAME.", autocompletion=names.pods)
]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", help="The pod's namespace, if NAME has none.")
]
FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f",
        help="Files or directories with the objects, or - for standard input; no scheduler is asked then.",
    ),
]  # fmt: skip


def pod(
    name: NameArgument,
    namespace: NamespaceOption = "",
    filename: FilesOption = None,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show why a pod is pending and the smallest change that would place it, or which decision bought its node.

    Each proposed change was tried: the planner places the pod with it, and not with a part of it. The pool that lacks
    least comes first. Nothing is changed. The scheduler is that of the stack in --directory, or the one that
    DOVETAIL_SCHEDULER_URL names; with -f the objects in the files are planned here.

    Exit code 1: no such pod, several pods of this name, or the scheduler does not answer.

    Examples:

      dovetail explain pod web-5c8d -n shop

      dovetail explain pod shop/web-5c8d -o json

      kubectl get pods,nodes,nodepools,nodeclaims -A -o yaml | dovetail explain pod shop/web-5c8d -f -
    """
    full = full_name(named(name, LISTED_BY), namespace)
    answer = _from_files(filename, full) if filename else _from_scheduler(directory, full)
    print_answer(answer, lines(answer), output)


def full_name(name: str, namespace: str) -> str:
    """NAMESPACE/NAME; the name alone without a namespace. A namespace in the name counts."""
    return f"{namespace}/{name}" if namespace and "/" not in name else name


def _from_scheduler(directory: Any, name: str) -> Mapping[str, Any]:
    url = scheduler_url(variables_of(directory))
    found: Mapping[str, Any] = compute(url, "explain", {"pod": name}, listed_by=LISTED_BY)
    return found


def _from_files(filename: list[str], name: str) -> Mapping[str, Any]:
    documents = documents_of(filename)
    snapshot = snapshot_of(documents, lambda: catalogue_of(documents))
    settings = counting_devices(snapshot, SolverSettings())
    return document_of(explain_pod(snapshot, _uid_of(snapshot, name), settings))


def _uid_of(snapshot: Snapshot, name: str) -> str:
    found = [pod for pod in snapshot.pods if name in (pod.key, pod.name)]
    if not found:
        raise NotFound(
            f"no pod in the files is named {name!r}; dovetail validate shows faults of the files"
        )
    if len(found) > 1:
        names = ", ".join(pod.key for pod in found[:5])
        raise ConfigurationError(f"several pods have this name, name one: {names}")
    return found[0].uid


def lines(answer: Mapping[str, Any]) -> Iterator[Text]:
    """What people read, unwrapped so that it can be copied."""
    yield Text(str(answer["pod"]), style="bold")
    if answer["state"] == "bound":
        yield Text(_bound(answer))
        if answer.get("bought"):
            yield Text(f"The node was bought: {bought_text(answer['bought'])}")
        return
    if answer["state"] == "placeable":
        if in_vain := answer.get("verdict"):
            text = f"Each round of the scheduler buys a machine for it, and it never runs there: {in_vain}"
        else:
            text = "The next round of the scheduler places it: nothing has to change."
        yield Text(text)
        return
    yield Text(f"It is pending: {answer['verdict']}")
    yield from _pools(answer["pools"])
    if answer["notExamined"]:
        yield Text(f"Not examined, too many pools: {', '.join(answer['notExamined'])}", style="dim")


def _bound(answer: Mapping[str, Any]) -> str:
    if not answer["node"]:
        return f"It does not wait for a new node: {answer['verdict']}."
    return (
        f"It is on the node {answer['node']}; `dovetail explain node {answer['node']}` says more."
    )


def _pools(pools: list[Mapping[str, Any]]) -> Iterator[Text]:
    for one in pools[:MOST_POOLS]:
        yield Text("")
        yield Text(str(one["pool"]), style="bold")
        if not one["changes"]:
            yield Text("  no change of its own fields or of the pod's would be enough")
        for edit in one["changes"]:
            yield Text(f"  -> {edit['object']}: {edit['text']}", style="green")
            yield Text(
                f"     {edit['field']}: {edit['action']} {_value(edit['value'])}", style="dim"
            )
    if len(pools) > MOST_POOLS:
        yield Text(f"and {len(pools) - MOST_POOLS} more pools: -o json", style="dim")


def _value(value: object) -> str:
    return "" if value is None else json.dumps(value)
