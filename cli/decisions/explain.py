"""``dovetail explain node``: the cost of a node, its pods, why it is of its type, and why it is still there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.decisions.explain_decision import decision
from cli.decisions.explain_pod import pod
from cli.decisions.explain_pool import pool
from cli.decisions.purchase_text import alternative_lines, bought_text, utc_text
from cli.kubectl import names
from cli.operations.scheduler_status import compute, named, scheduler_url
from cli.options import group
from cli.stack.environment import StackOption, variables_of
from cli.text import print_json
from local.stack import DEFAULT_DIRECTORY

POD_LIMIT = 15

explain = group(
    "Show why a node is there, a pod is pending or a pool buys nothing, and what would help."
)
explain.command()(pod)
explain.command()(decision)
explain.command()(pool)


@explain.command()
def node(
    name: Annotated[
        str,
        typer.Argument(help="A node, or its Machine or NodeClaim.", autocompletion=names.nodes),
    ],
    output: Annotated[
        Literal["panel", "json"],
        typer.Option("--output", "-o", help="panel for people, json for programs."),
    ] = "panel",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what a node costs, which pods run on it, why it is of its type, what is being done to it, and why it stays.

    The scheduler answers from its last disruption pass, which is some seconds old. Nothing is changed. A node may stay
    for several reasons; where one is known, each reason is printed with the smallest change that would remove it. The
    other types are judged by the prices and the pool of now. The scheduler is that of the stack in --directory, or the
    one that DOVETAIL_SCHEDULER_URL names.

    Exit code 1: Dovetail manages no such node, or the scheduler does not answer.

    Examples:

      dovetail explain node ip-10-0-0-17.us-west-2.compute.internal

      dovetail explain node default-x7f2k -o json

      kubectl get nodes -l karpenter.sh/nodepool -o name | xargs -n1 dovetail explain node
    """
    url = scheduler_url(variables_of(directory))
    answer = compute(url, "explain", {"node": bare(named(name, "kubectl get nodes"))})
    if output == "json":
        print_json(answer)
        return
    show(answer, Console())


def bare(name: str) -> str:
    """The name without the kind that ``kubectl get -o name`` adds: node/NAME, nodeclaim.karpenter.sh/NAME."""
    return name.rpartition("/")[2]


def show(answer: Mapping[str, Any], console: Console) -> None:
    """Print the answer as a panel. Reasons follow below the panel as unwrapped lines, so that they can be copied."""
    title = Text(str(answer["node"] or answer["machine"]), style="bold")
    console.print(Panel(_facts(answer), title=title, title_align="left", expand=False))
    for text in (*_verdict(answer), *alternative_lines(answer.get("alternatives"))):
        console.print(text, soft_wrap=True)


def _verdict(answer: Mapping[str, Any]) -> Iterator[Text]:
    """The lines below the panel: reasons why the node stays, and changes that would let it go."""
    reasons = _reasons(answer["staysBecause"])
    if answer["terminating"]:
        node = answer["node"]
        why = f": kubectl describe node {node} shows what its drain waits for" if node else ""
        yield Text(f"It is being terminated{why}.", style="bold")
        return
    if not reasons and not answer["command"] and not answer["proposal"]:
        yield Text("Nothing holds it: the next disruption pass may remove it.", style="bold")
    if reasons:
        yield Text("It stays because", style="bold")
    for reason, change in reasons:
        yield Text(f"  {reason}")
        if change:
            yield Text(f"    -> {change}", style="green")


def _facts(answer: Mapping[str, Any]) -> Table:
    facts = Table.grid(padding=(0, 2))
    price, pods = answer["pricePerHour"], answer["pods"]
    rows = {
        "costs": "not known" if price is None else f"${price:.4f} an hour",
        "is": " ".join(
            filter(None, (answer["instanceType"], answer["zone"], answer["capacityType"]))
        ),
        "machine": f"{answer['machine']} of {answer['nodePool'] or 'no pool'}",
        "bought": bought_text(answer.get("bought")),
        "pods": _pods(pods),
        "under way": answer["command"] or "nothing",
        "proposed": answer["proposal"] or "nothing",
        "expires": _expires(answer),
        "conditions": ", ".join(
            condition
            for condition, status in answer["conditions"].items()
            if status.startswith("True")
        ),
    }
    for name, value in rows.items():
        if value:
            facts.add_row(Text(name, style="dim"), Text(value))
    return facts


def _expires(answer: Mapping[str, Any]) -> str:
    """Empty for a node that never grows too old; a scheduler of an older version does not say."""
    found = answer.get("expires")
    if found is None:
        return ""
    first = "it is replaced" if found["replacedFirst"] else "it is drained, whatever holds it until"
    return f"{utc_text(found['at'])}: {first} then"


def _pods(pods: list[str]) -> str:
    if not pods:
        return "none that would have to move"
    more = len(pods) - POD_LIMIT
    return (
        f"{len(pods)}: " + ", ".join(pods[:POD_LIMIT]) + (f" and {more} more" if more > 0 else "")
    )


def _reasons(given: list[Mapping[str, str]]) -> list[tuple[str, str]]:
    """(reason, change) without repetitions: several methods may give the same reason."""
    found: dict[str, str] = {}
    for one in given:
        pod = f" ({one['pod']})" if one["pod"] else ""
        found.setdefault(f"{one['text']}{pod}", one["change"])
    return list(found.items())
