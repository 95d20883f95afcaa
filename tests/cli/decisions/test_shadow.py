"""``dovetail shadow diff``: in each situation, what the scheduler did and what the shadow would have done."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.decisions.pairing import NEAR_SECONDS, compare
from cli.main import commands
from shared.concurrency.clock import rfc3339
from shared.errors import NotFound
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore
from shared.simulation.decisions.records import DecisionRecord
from shared.solver.solve import SolverSettings
from tests.support.planning.disruption import NOW
from tests.support.planning.recorded_days import CLUSTER, ROUND_SECONDS, Day


def recorded(
    folder: Path, *, shadow: bool, seed: int = 7, policy: str = "FewestNodes", begin: float = NOW
) -> None:
    """The first twelve rounds of a made day."""
    settings = SolverSettings(packing_policy=policy)
    day = Day(DirectoryStore(folder), seed, settings, shadow=shadow, begin=begin)
    asyncio.run(day.run(12))


async def records(folder: Path, role: str) -> list[DecisionRecord]:
    archive = Archive(DirectoryStore(folder), CLUSTER, role)
    return [record async for record in archive.records()]


def diff(folder: Path, *words: str) -> dict[str, object]:
    given = ["shadow", "diff", "--from", rfc3339(NOW), "--store", str(folder), "-o", "json"]
    done = CliRunner().invoke(commands, [*given, *words])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_equal_schedulers_have_equal_decisions(tmp_path: Path) -> None:
    recorded(tmp_path, shadow=False)
    recorded(tmp_path, shadow=True)
    found = diff(tmp_path)
    assert found["compared"] == found["equal"]
    assert found["compared"]
    assert found["decisions"] == []
    assert len(diff(tmp_path, "--all")["decisions"]) == found["compared"]  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_each_would_do_in_one_situation_is_a_pair(tmp_path: Path) -> None:
    """The same pods; the shadow packs by another policy, so their first plans differ in machines at most."""
    recorded(tmp_path, shadow=False)
    recorded(tmp_path, shadow=True, policy="LowestCost")
    real = asyncio.run(records(tmp_path, "main"))
    shadow = asyncio.run(records(tmp_path, "shadow"))
    first = compare(real, shadow).pairs[0]
    assert first.real is not None
    assert first.shadow is not None
    assert first.real.input.digest == first.shadow.input.digest


def test_decisions_that_only_one_made_are_named(tmp_path: Path) -> None:
    recorded(tmp_path, shadow=False)
    real = asyncio.run(records(tmp_path, "main"))
    alone = compare(real, [])
    assert alone.totals()["onlyReal"] == len(alone.pairs) > 0
    assert compare([], real).totals()["onlyShadow"] > 0


def test_what_was_decided_before_the_shadow_began_is_left_out(tmp_path: Path) -> None:
    """Else every decision of that time would be one that only the scheduler made."""
    recorded(tmp_path, shadow=False)
    recorded(tmp_path, shadow=True, begin=NOW + 4 * ROUND_SECONDS)
    real = [one for one in asyncio.run(records(tmp_path, "main")) if one.kind == "plan"]
    begun = min(one.at for one in asyncio.run(records(tmp_path, "shadow")))
    assert real[0].at < begun - NEAR_SECONDS
    found: Any = diff(tmp_path, "--all")
    assert found["from"] == rfc3339(begun)
    assert found["decisions"]
    assert all(one["at"] >= rfc3339(begun - NEAR_SECONDS) for one in found["decisions"])


def test_a_shadow_that_has_recorded_nothing_is_an_error(tmp_path: Path) -> None:
    recorded(tmp_path, shadow=False)
    given = ["shadow", "diff", "--from", rfc3339(NOW), "--store", str(tmp_path)]
    done = CliRunner().invoke(commands, given)
    assert isinstance(done.exception, NotFound)
    assert "the shadow scheduler has recorded nothing" in str(done.exception)


@pytest.mark.parametrize("output", ["table", "json"])
def test_both_forms_have_the_totals(tmp_path: Path, output: str) -> None:
    recorded(tmp_path, shadow=False)
    recorded(tmp_path, shadow=True, seed=8)
    given = ["shadow", "diff", "--from", rfc3339(NOW), "--store", str(tmp_path), "-o", output]
    text = CliRunner().invoke(commands, given).stdout
    assert "only the shadow" in text or "onlyShadow" in text
