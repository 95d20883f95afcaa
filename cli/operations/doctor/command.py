"""``dovetail doctor``: run all checks, and print what each found and what mends it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from cli.kubectl.addresses import NAMESPACE, SYSTEM_NAMESPACE
from cli.operations.doctor.classes import classes
from cli.operations.doctor.clocks import clocks
from cli.operations.doctor.cloud import dry_runs, queue
from cli.operations.doctor.cluster import cluster, definitions
from cli.operations.doctor.finding import Check, Finding, Installation, not_checked
from cli.operations.doctor.redis import redis
from cli.operations.doctor.rights import accounts, own
from cli.operations.doctor.services import services
from cli.options import OutputOption
from cli.printing import print_line, print_table
from cli.stack.cluster import connected_to
from cli.stack.environment import StackOption, variables_of
from cli.text import counted, escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, DovetailError

GROUPS: Mapping[str, tuple[Check, ...]] = {
    "cluster": (cluster, definitions),
    "rights": (own, accounts),
    "services": (services,),
    "redis": (redis,),
    "queue": (queue,),
    "iam": (dry_runs,),
    "classes": (classes,),
    "clocks": (clocks,),
}
GROUP_SECONDS = 60.0
COLOURS = {"ok": "green", "failed": "red", "not checked": "yellow"}


def _group_names(incomplete: str) -> list[str]:
    return [name for name in GROUPS if name.startswith(incomplete)]


GroupOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Only these checks; repeatable: {', '.join(GROUPS)}.", autocompletion=_group_names
    ),
]
SkipOption = Annotated[
    list[str] | None, typer.Option(help="Not these checks.", autocompletion=_group_names)
]


def doctor(
    only: GroupOption = None,
    skip: SkipOption = None,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Check an installation: cluster, rights, services, Redis, queue, IAM, node classes and clocks.

    Each failure comes with the command that mends it. A check that cannot be made says so, and does not count as
    passed. Nothing is changed: rights are reviewed, EC2 is asked by dry runs.

    Exit code 1: a check failed, or could not be made.

    Examples:

      dovetail doctor

      kubectl dovetail doctor --skip redis --skip iam

      dovetail doctor --only clocks -o json
    """
    chosen = chosen_groups(only, skip)
    found = asyncio.run(_findings(variables_of(directory), chosen))
    if output == "json":
        print_json([{"group": group, **asdict(one)} for group, one in found])
    else:
        _print(found)
    if any(one.state != "ok" for _, one in found):
        raise typer.Exit(1)


def chosen_groups(only: Sequence[str] | None, skip: Sequence[str] | None) -> list[str]:
    """The groups in their order. Raises ConfigurationError for an unknown name."""
    if unknown := [name for name in (*(only or ()), *(skip or ())) if name not in GROUPS]:
        raise ConfigurationError(
            f"there are no checks {', '.join(unknown)}; they are {', '.join(GROUPS)}"
        )
    return [name for name in GROUPS if name not in (skip or ()) and name in (only or GROUPS)]


async def _findings(
    variables: Mapping[str, str], chosen: Sequence[str]
) -> list[tuple[str, Finding]]:
    # The AWS client reads credentials from the environment of this process alone.
    os.environ.update({key: value for key, value in variables.items() if key.startswith("AWS_")})
    namespace = variables.get(SYSTEM_NAMESPACE) or NAMESPACE
    async with connected_to(variables, command="doctor") as kube:
        installation = Installation(variables, kube, namespace, SystemClock())
        return [
            (group, finding)
            for group in chosen
            for check in GROUPS[group]
            async for finding in bounded(check, group, installation)
        ]


async def bounded(check: Check, group: str, installation: Installation) -> AsyncIterator[Finding]:
    """The findings of a check; one more when it ends by an error or takes too long."""
    try:
        async with asyncio.timeout(GROUP_SECONDS):
            async for finding in check(installation):
                yield finding
    except TimeoutError:
        why = f"it took more than {GROUP_SECONDS:.0f} s"
        yield not_checked(f"checks of {group}", why, "run it again")
    except DovetailError as error:
        yield not_checked(f"checks of {group}", error.message, "correct this, and run it again")


def _print(found: Sequence[tuple[str, Finding]]) -> None:
    rows = [
        (group, one.check, Text(one.state, COLOURS[one.state]), escaped(one.found))
        for group, one in found
    ]
    print_table(("group", "check", "result", "found"), rows)
    wrong = [one for _, one in found if one.state != "ok"]
    for one in wrong:
        print_line(f"{one.check}: {escaped(one.found)}")
        print_line(f"  -> {one.mend}")
    print_line(f"{counted(len(found), 'check')}, {len(wrong)} not passed")
