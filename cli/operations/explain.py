"""``dovetail explain node``: what a node costs, what runs there, and why it is still there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.operations.scheduler_status import ask, scheduler_url
from cli.stack.running_stack import StackOption, variables_of
from local.stack import DEFAULT_DIRECTORY

MOST_PODS = 15

explain = typer.Typer(
    name="explain",
    help="Say why things are as they are: a node, and what would let it go.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Output(StrEnum):
    """How the answer is printed."""

    PANEL = "panel"
    JSON = "json"


@explain.callback()
def _group() -> None:
    """Typer makes a group only of what has a callback or several commands."""


@explain.command()
def node(
    name: Annotated[str, typer.Argument(help="A node, or its Machine or NodeClaim.")],
    output: Annotated[
        Output, typer.Option("--output", "-o", help="panel for people, json for programs.")
    ] = Output.PANEL,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Say what a node costs, which pods run there, what is being done to it, and why it stays.

    The scheduler answers from its last look, which is some seconds old, and changes nothing. Each reason comes with
    the smallest change that would take it away, where one follows; several reasons may hold at once. The scheduler is
    that of the stack in --directory, or the one that DOVETAIL_SCHEDULER_URL names.

    Exit code 1: there is no such node of ours, or the scheduler does not answer.

    Examples:

      dovetail explain node ip-10-0-0-17.us-west-2.compute.internal

      dovetail explain node default-x7f2k -o json

      kubectl get nodes -l karpenter.sh/nodepool -o name | xargs -n1 dovetail explain node
    """
    url = scheduler_url(variables_of(directory))
    answer = ask(f"{url}/explain", {"node": bare(name)})
    if output is Output.JSON:
        typer.echo(json.dumps(answer, indent=2))
        return
    show(answer, Console())


def bare(name: str) -> str:
    """Without the kind that ``kubectl get -o name`` writes before it: node/NAME, nodeclaim.karpenter.sh/NAME."""
    return name.rpartition("/")[2]


def show(answer: Mapping[str, Any], console: Console) -> None:
    """The answer for people. Reasons stand below the panel, in lines that can be copied whole."""
    title = Text(str(answer["node"] or answer["machine"]), style="bold")
    console.print(Panel(_facts(answer), title=title, title_align="left", expand=False))
    for text in _verdict(answer):
        console.print(text, soft_wrap=True)


def _verdict(answer: Mapping[str, Any]) -> Iterator[Text]:
    """Why it stays, and what would change that."""
    reasons = _reasons(answer["staysBecause"])
    if answer["terminating"]:
        yield Text("It is on its way out.", style="bold")
        return
    if not reasons and not answer["command"] and not answer["proposal"]:
        yield Text("Nothing holds it: the next look may take it.", style="bold")
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
        "pods": _pods(pods),
        "under way": answer["command"] or "nothing",
        "proposed": answer["proposal"] or "nothing",
        "conditions": ", ".join(
            condition for condition, status in answer["conditions"].items() if _holds(status)
        ),
    }
    for name, value in rows.items():
        facts.add_row(Text(name, style="dim"), Text(value))
    return facts


def _holds(status: str) -> bool:
    return status.startswith("True")


def _pods(pods: list[str]) -> str:
    if not pods:
        return "none that would have to move"
    more = len(pods) - MOST_PODS
    return (
        f"{len(pods)}: " + ", ".join(pods[:MOST_PODS]) + (f" and {more} more" if more > 0 else "")
    )


def _reasons(said: list[Mapping[str, str]]) -> list[tuple[str, str]]:
    """(reason, change), each once: several methods say the same."""
    found: dict[str, str] = {}
    for one in said:
        pod = f" ({one['pod']})" if one["pod"] else ""
        found.setdefault(f"{one['text']}{pod}", one["change"])
    return list(found.items())
