"""What ``dovetail audit`` says of a stack: every promise holds, not counting any grace."""

from __future__ import annotations

import asyncio
import os
from unittest.mock import patch

from cli.operations.audit.catalogue import Verdict, judged
from cli.operations.audit.finding import Graces
from cli.operations.audit.reading.read import read
from cli.operations.doctor.finding import Installation
from local.stack import Stack
from local.stack_plan import NAMESPACE
from shared.concurrency.clock import SystemClock
from tests.support.stories.playground import Playground, playground_on, until

AT_ONCE = Graces().at_most(0.0)


async def wait_until_all_promises_hold(ground: Playground, story: str = "") -> None:
    """A stack at rest breaks none, not even for the moment that a healthy cluster may take. What cannot be judged
    counts as broken. ``story``: what was done before, for the message."""
    last: list[Verdict] = []

    async def kept() -> bool:
        nonlocal last
        last = await broken_promises(ground)
        return not last

    await until(kept, f"every promise holds {story}".strip(), show=lambda: last, every=0.5)


async def broken_promises(ground: Playground) -> list[Verdict]:
    """By one reading."""
    variables = dict(ground.stack.running().environment)
    account = {name: value for name, value in variables.items() if name.startswith("AWS_")}
    with patch.dict(os.environ, account):
        reading = await read(Installation(variables, ground.kube, NAMESPACE, SystemClock()))
    return [one for one in judged(reading, AT_ONCE) if one.result != "holds"]


def audit_at_the_end(stack: Stack) -> None:
    """After the last story of a stack, which is empty then."""

    async def audit() -> None:
        async with playground_on(stack) as ground:
            await wait_until_all_promises_hold(ground, "after the last story")

    asyncio.run(audit())
