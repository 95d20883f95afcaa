"""Simulated runs whose scheduler records: its decisions are made again byte for byte, and its ledger is AWS' bill."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cli.decisions.ledger.over_time import spent_in
from cli.decisions.replay import replay_all
from local.aws.capacity.bill import Bill, Pool
from local.aws.catalogue.prices import PriceBook, load_listed_prices
from local.aws.emulator import load_catalogue
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore
from simulation.determinism import WALL_START_SECONDS
from simulation.loop import START_SECONDS
from simulation.settings import CLUSTER

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
PROJECT = Path(__file__).resolve().parents[2]
BEGIN = WALL_START_SECONDS + START_SECONDS
LONGEST = BEGIN + 86_400.0
SHOWN_SECONDS = 10.0
"""An instance is in the mirror so long after its launch, at the latest."""
ROUNDS = 200
"""Of one run, at least; four runs have about a thousand."""
SHARE = 0.001
"""The ledger may differ from the bill by so much."""


class Recorded(NamedTuple):
    """``trace``: the file with the events of the run."""

    records: Path
    trace: Path

    @property
    def archive(self) -> Archive:
        return Archive(DirectoryStore(self.records), CLUSTER, "main")

    def bill(self, instances: Set[str]) -> Bill:
        """The emulator's bill of these instances, from their states."""
        made = Bill(PriceBook(load_catalogue().types, load_listed_prices()))
        for event in self.events():
            if event["kind"] == "instance" and event["id"] in instances:
                pool = Pool(event["instance_type"], event["zone"], event["capacity_type"])
                made.note(event["id"], pool, event["state"], BEGIN + event["at"])
        return made

    def launched(self, before: float) -> set[str]:
        """The instances that were launched in time."""
        return {
            event["id"]
            for event in self.events()
            if event["kind"] == "instance" and event["state"] == "pending" and event["at"] < before
        }

    def by_hand(self) -> set[str]:
        """The instances that a user ended or stopped."""
        outcomes = (e.get("outcome", "") for e in self.events() if e["kind"] == "user")
        words = (outcome.split() for outcome in outcomes)
        return {found[1] for found in words if found[:1] in (["terminated"], ["stopped"])}

    def events(self) -> Iterator[dict[str, Any]]:
        with self.trace.open() as lines:
            yield from map(json.loads, lines)


@pytest.fixture(scope="module", params=(7, 8, 9, 11), ids="seed {}".format)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Ten minutes with users, and the quiet time after them."""
    folder = tmp_path_factory.mktemp("recorded")
    records, trace = folder / "records", folder / "trace"
    command = [
        sys.executable, "-m", "simulation", "--scenario", "quiet", "--first-seed", str(request.param),
        "--minutes", "10", "--records", str(records), "--trace", str(trace),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Recorded(records, trace)


async def test_every_round_of_the_services_comes_out_byte_for_byte_the_same(
    recorded: Recorded,
) -> None:
    done = await replay_all(recorded.archive, BEGIN, LONGEST)
    assert (done.different, done.lost, done.timed_out) == ([], [], 0)
    assert done.same > ROUNDS


async def test_the_ledger_is_the_bill_of_the_instance_seconds(recorded: Recorded) -> None:
    """All of it, what each pool has of it, of v1alpha5 and of v1, and instances that somebody ended or stopped by
    hand: of these EC2 says when."""
    spent = await spent_in(recorded.archive, BEGIN, LONGEST, "", "pool")
    pools = {owner.instance: owner.pool for _, owner in spent.owners}
    assert {pool.partition("/")[0] for pool in pools.values()} == {"Provisioner", "NodePool"}
    of_pools = [{id_ for id_ in pools if pools[id_] == pool} for pool in set(pools.values())]
    for instances in filter(None, (set(pools), recorded.by_hand() & pools.keys(), *of_pools)):
        lines = recorded.bill(instances).lines(*spent.edges)
        billed = sum(line.dollars for line in lines)
        shares = [m for (_, owner), m in spent.owners.items() if owner.instance in instances]
        # Kubernetes' times are whole seconds, which a few short lives feel and all of them do not.
        second = sum(line.dollars / line.seconds * line.instances for line in lines)
        few = second if instances != set(pools) else 0.0
        assert sum(shares) / 1e6 == pytest.approx(billed, rel=SHARE, abs=few)


async def test_every_instance_is_in_the_ledger(recorded: Recorded) -> None:
    spent = await spent_in(recorded.archive, BEGIN, LONGEST, "", "pool")
    end = spent.edges[-1]
    known = {owner.instance for _, owner in spent.owners}
    assert recorded.launched(end - BEGIN - SHOWN_SECONDS) - known == set()
    assert spent.unpriced == ()
