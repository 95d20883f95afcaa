"""``dovetail approvals``, ``approve`` and ``reject``: disruption commands that wait for an answer."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from cli.operations.scheduler_status import ask, named, scheduler_url
from cli.options import OutputOption
from cli.stack.environment import StackOption, variables_of
from cli.text import counted, escaped, print_json
from local.stack import DEFAULT_DIRECTORY

LISTED_BY = "dovetail approvals"
IdArgument = Annotated[
    str, typer.Argument(help="Of the command, as `dovetail approvals` lists it.")
]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept with the answer.")]


def approvals(
    ended: Annotated[
        bool, typer.Option("--ended", help="Also those that ended, with who answered and when.")
    ] = False,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """List the disruption commands that wait for an approval: their machines, what they save, until when they wait.

    Only pools with the annotation dovetail.sh/approval have such commands. Nothing is changed. The scheduler is that of
    the stack in --directory, or the one that DOVETAIL_SCHEDULER_URL names. Those who may answer see who answered:
    --ended needs what `dovetail approve` needs.

    Exit code 1: the scheduler does not answer or, with --ended, does not permit it.

    Examples:

      dovetail approvals

      dovetail approvals --ended -o json
    """
    url = scheduler_url(variables_of(directory))
    if ended:
        known = ask(f"{url}/approvals", private=True)
    else:
        known = ask(f"{url}/status").get("approvals") or {"waiting": [], "ended": []}
    if output == "json":
        print_json(known if ended else known["waiting"])
        return
    for line in lines(known, ended=ended):
        typer.echo(line)


def approve(
    id: IdArgument, reason: ReasonOption = "", directory: StackOption = DEFAULT_DIRECTORY
) -> None:
    """Approve a disruption command that waits: it is validated again and, if it is still right, started.

    The first answer counts. Who answers is the user of the token in DOVETAIL_TOKEN; where the scheduler asks for no
    token, it is your user name on this computer.

    Exit code 1: no such command waits, it was answered before, or the scheduler does not answer or does not permit it.

    Examples:

      dovetail approve 3f9c2d1ab7e04855

      dovetail approve 3f9c2d1ab7e04855 --reason "after the release"
    """
    _answer(id, approved=True, reason=reason, variables=variables_of(directory))


def reject(
    id: IdArgument, reason: ReasonOption = "", directory: StackOption = DEFAULT_DIRECTORY
) -> None:
    """Reject a disruption command that waits. Its machines stay at least until it would have expired.

    The first answer counts. Who answers: as for `dovetail approve`.

    Exit code 1: no such command waits, it was answered before, or the scheduler does not answer or does not permit it.

    Examples:

      dovetail reject 3f9c2d1ab7e04855 --reason "not during the sale"
    """
    _answer(id, approved=False, reason=reason, variables=variables_of(directory))


def _answer(id_: str, *, approved: bool, reason: str, variables: Mapping[str, str]) -> None:
    id_ = quote(named(id_, LISTED_BY), safe="")
    url = f"{scheduler_url(variables)}/approvals/{id_}"
    body = {"approved": approved, "reason": reason, "user": _user()}
    found = ask(url, body, listed_by=LISTED_BY)
    word = "approved" if approved else "rejected"
    typer.echo(f"{word} as {escaped(found['answer']['who'])}: {escaped(found['text'])}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def lines(known: Mapping[str, Any], *, ended: bool) -> Iterator[str]:
    """What people read."""
    if not known["waiting"]:
        yield "no disruption command waits for approval"
    for one in known["waiting"]:
        yield f"{one['id']}  {one['outcome']}, until {one['expiresAt']}  {', '.join(one['pools'])}"
        yield f"  {escaped(one['text'])}"
        yield from (f"  - {m['node']} {m['instanceType']} {m['capacityType']}" for m in one["goes"])
        yield from _more(one["going"] - len(one["goes"]))
        yield from (
            f"  + {m['instanceType']} {m['zone']} {m['capacityType']}" for m in one["comes"]
        )
        yield from _more(one["coming"] - len(one["comes"]))
        yield from _answer_lines(one)
    for one in known["ended"] if ended else ():
        yield f"{one['id']}  {one['outcome']} at {one['endedAt']}  {escaped(one['text'])}"
        yield from _answer_lines(one)


def _more(count: int) -> Iterator[str]:
    if count > 0:
        yield f"    and {counted(count, 'more machine')}"


def _answer_lines(one: Mapping[str, Any]) -> Iterator[str]:
    answer = one["answer"]
    if answer:
        word = "approved" if answer["approved"] else "rejected"
        who = f" by {answer['who']}" if "who" in answer else ""
        more = f": {answer['reason']}" if answer.get("reason") else ""
        yield f"  {word}{escaped(who)} at {answer['at']}{escaped(more)}"
    if one["why"]:
        yield f"  {escaped(one['why'])}"
