"""``dovetail explain pool``: what a pool has and costs, what it may buy, and what keeps it from its work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from cli.kubectl import names
from cli.operations.scheduler_status import compute, named, scheduler_url
from cli.options import OutputOption
from cli.printing import print_answer
from cli.stack.environment import StackOption, variables_of
from cli.text import counted
from local.stack import DEFAULT_DIRECTORY

LISTED_BY = "kubectl get nodepools,provisioners"


def pool(
    name: Annotated[
        str, typer.Argument(help="A pool: NAME or KIND/NAME.", autocompletion=names.pools)
    ],
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what a pool has and costs, what it may buy, and what keeps it from buying or disrupting.

    Nothing is changed. The scheduler is that of the stack in --directory, or the one that DOVETAIL_SCHEDULER_URL names.

    Exit code 1: no such pool, or the scheduler does not answer.

    Examples:

      dovetail explain pool default

      dovetail explain pool NodePool/default -o json
    """
    answer = compute(
        scheduler_url(variables_of(directory)),
        "explain",
        {"pool": named(name, LISTED_BY)},
        listed_by=LISTED_BY,
    )
    print_answer(answer, lines(answer), output)


def lines(answer: Mapping[str, Any]) -> Iterator[Text]:
    """What people read, unwrapped so that it can be copied."""
    yield Text(str(answer["pool"]), style="bold")
    for problem in answer["problems"]:
        yield Text(f"  ! {problem}", style="yellow")
    machines = answer["machines"]
    parts = [f"{machines['ready']} ready", f"{machines['drifted']} drifted"]
    parts.append(f"{machines['terminating']} terminating")
    replicas = answer.get("replicas")  # a scheduler of an older version does not say it
    wanted = "" if replicas is None else f" of {counted(replicas, 'replica')}"
    yield Text(f"machines   {machines['all']}{wanted}: {', '.join(parts)}")
    types = ", ".join(f"{kind} {count}" for kind, count in answer["instanceTypes"].items())
    yield Text(f"types      {types or 'none'}")
    yield Text(f"pods       {answer['pods']}")
    yield Text(f"costs      ${answer['costPerHour']:.4f} an hour, packed by {answer['packing']}")
    yield from map(Text, _kept(answer.get("kept", {})))
    for name, one in answer["limits"].items():
        yield Text(f"limit      {name}: {one['used']} of {one['limit']}")
    for reason, one in answer["budgets"].items():
        yield Text(f"budget     {reason}: at most {one['most']} of {one['of']} at once")
    offerings = answer["offerings"]
    yield Text(f"may buy    {counted(offerings['allowed'], 'offering')}, the cheapest:")
    for one in offerings["cheapest"]:
        place = f"{one['instanceType']} {one['zone']} {one['capacityType']}"
        yield Text(f"           ${one['pricePerHour']:.4f}  {place}")
    for one in answer.get("shortages", ()):  # a scheduler of an older version has none
        place = f"{one['instanceType']} {one['zone']} {one['capacityType']}"
        now = "refused now" if one["refusedNow"] else "refused of late"
        yield Text(f"short      {place}: {now}, counts {one['dearerPercent']:.2f} % dearer")


def _kept(answer: Mapping[str, Any]) -> Iterator[str]:
    """Minimum and headroom; a scheduler of an older version does not say them."""
    for kind, free in (("minimum", ""), ("headroom", " free")):
        amounts, begins = answer.get(kind, {}), answer.get(f"{kind}From", ())
        for name, one in amounts.items():
            yield f"{kind:10} {name}: {one['has']} of {one['wanted']}{free}"
        if begins and not amounts:
            yield f"{kind:10} none now; from {', '.join(begins)} (UTC)"
