"""The cluster that a ledger looks at: the running one, that of files, or a recorded one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cli.decisions.plan.cluster import Catalogues, Held, read_cluster
from cli.decisions.recorded import moment, read_archive
from cli.manifests.simulate import documents_of, snapshot_of
from cli.stack.environment import variables_of
from shared.concurrency.clock import Clock
from shared.runtime.archive.reading import Archive
from shared.simulation.decisions.records import ValidationQuestion
from shared.simulation.ledgers.pricing import Source
from shared.solver.solve import SolverSettings


def snapshot_now(filename: list[str] | None, region: str, directory: Path, now: float) -> Source:
    """Of the files, or of the cluster that the directory or the shell names. With the usual settings.
    Raises ConfigurationError, and what reading the cluster raises."""
    held = Held(documents_of(filename)) if filename else _running(directory)
    return Source(snapshot_of(held.documents, Catalogues(held, region)), SolverSettings(), now)


def _running(directory: Path) -> Held:
    return asyncio.run(read_cluster(variables_of(directory), frozenset()))


def snapshot_at(at: str, clock: Clock, *, store: str, cluster: str, directory: Path) -> Source:
    """As the scheduler saw the cluster in its last decision up to this time, and with its settings.

    Raises ConfigurationError, and NotFound when nothing is recorded of that time or a part of the log is gone."""

    async def read(archive: Archive) -> Source:
        record, snapshot = await archive.restore(await archive.at(moment(at, clock, "--at")))
        question = record.question
        world = question.world if isinstance(question, ValidationQuestion) else question
        return Source(snapshot, world.settings, world.now)

    return read_archive(read, store=store, cluster=cluster, directory=directory)
