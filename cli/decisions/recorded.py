"""The archive that a command reads, and the options that name it and a moment in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cli.stack.environment import variables_of
from shared.concurrency.clock import Clock, parse_rfc3339
from shared.domain.durations import go_duration_seconds
from shared.domain.instance_types.shortage_records import FOLDER
from shared.errors import ConfigurationError, NotFound
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import Store
from shared.simulation.decisions.names import MAIN

Result = TypeVar("Result")
STORE, ENDPOINT, CLUSTER = "RECORD_STORE", "RECORD_ENDPOINT_URL", "CLUSTER_NAME"
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        help="The archive: a directory or s3://BUCKET/PREFIX. Default: RECORD_STORE of the stack or the shell.",
    ),
]
ClusterOption = Annotated[
    str,
    typer.Option(
        "--cluster",
        help="Name of the cluster, where the archive has several. Default: CLUSTER_NAME.",
    ),
]


def read_archive(
    read: Callable[[Archive], Awaitable[Result]],
    *,
    store: str,
    cluster: str,
    directory: Path,
    role: str = MAIN,
) -> Result:
    """What ``read`` returns. Raises ConfigurationError, NotFound and what ``Archive`` raises."""
    variables = variables_of(directory)
    address = store or variables.get(STORE, "")
    opened = open_store(address, endpoint_url=variables.get(ENDPOINT, ""))

    async def run() -> Result:
        try:
            name = cluster or (await only_cluster(opened, variables.get(CLUSTER, ""), address))
            return await read(Archive(opened, name, role))
        finally:
            await opened.close()

    return asyncio.run(run())


async def only_cluster(store: Store, preferred: str, address: str) -> str:
    """The preferred cluster if the archive has it, else its only one. Raises NotFound, ConfigurationError."""
    found = sorted({one.name.partition("/")[0] for one in await store.listing("")} - {FOLDER})
    if not found:
        raise NotFound(
            f"nothing is recorded in {address}; the scheduler records where RECORD_STORE is set"
        )
    if preferred in found:
        return preferred
    if len(found) > 1:
        raise ConfigurationError(
            f"the archive has several clusters: name one of {', '.join(found[:10])} by --cluster"
        )
    return found[0]


def moment(text: str, clock: Clock, option: str) -> float:
    """Seconds since the epoch of a time as RFC 3339, or of a duration ago such as ``2h``. Raises ConfigurationError."""
    ago = go_duration_seconds(text)
    if ago is not None:
        return clock.now() - ago
    try:
        return parse_rfc3339(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{option} must be a time such as 2026-11-25T10:42:00Z, or how long ago, such as 2h: not {text[:40]!r}"
        ) from error


def period(begin: str, end: str, clock: Clock) -> tuple[float, float]:
    """(--from, --to) in seconds since the epoch; empty: from the first record on, until now. Raises ConfigurationError
    for a period that ends before it begins, or has not begun."""
    first = moment(begin, clock, "--from") if begin else 0.0
    last = moment(end, clock, "--to") if end else clock.now()
    if first > clock.now():
        raise ConfigurationError(f"--from must be in the past: {begin[:40]!r} is still to come")
    if end and last <= first:
        raise ConfigurationError(
            f"--to must be later than --from: {end[:40]!r} is not after {begin[:40]!r}"
        )
    return first, last
