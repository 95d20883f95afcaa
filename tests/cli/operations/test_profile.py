"""``dovetail profile`` against a real status server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cli.main import commands
from shared.concurrency.clock import SystemClock
from shared.errors import DovetailError
from shared.metrics import Metrics
from shared.runtime.services import Service
from shared.runtime.status import Listener, mount, server_loop
from tests.support.network.status_server import free_port, running

VARIABLE = "DOVETAIL_SCHEDULER_URL"


def run(directory: Path, url: str, *options: str) -> Result:
    here = {VARIABLE: url, "DOVETAIL_DIRECTORY": str(directory)}
    return CliRunner().invoke(
        commands, ["profile", "scheduler", "--seconds", "0.2", *options], env=here
    )


async def profiled(directory: Path, *options: str, profiling: bool = True) -> Result:
    """The command's end, for a scheduler that runs here."""
    port, service = free_port(), Service("scheduler", [], Metrics("scheduler"), dict, list)
    listener = Listener(mount([service], SystemClock(), profiling=profiling), "127.0.0.1", port)
    async with running(server_loop(listener), port):
        return await asyncio.to_thread(run, directory, f"http://127.0.0.1:{port}/", *options)


async def test_it_prints_stacks_with_their_counts(tmp_path: Path) -> None:
    done = await profiled(tmp_path)
    assert done.exit_code == 0
    stacks = [line.rpartition(" ") for line in done.stdout.splitlines()]
    assert any(stack.startswith("MainThread;") for stack, _, _ in stacks)
    counts = [int(count) for _, _, count in stacks]
    assert counts == sorted(counts, reverse=True)


async def test_it_writes_a_document_for_speedscope(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    done = await profiled(tmp_path, "--format", "speedscope", "--output", str(file))
    assert done.stdout.replace("\n", "") == f"written to {file}"
    assert json.loads(file.read_text())["name"] == "scheduler"


async def test_a_service_without_profiling_says_what_to_set(tmp_path: Path) -> None:
    done = await profiled(tmp_path, profiling=False)
    assert isinstance(done.exception, DovetailError)
    assert "PROFILING=true" in done.exception.message


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "kubectl port-forward -n dovetail deploy/dovetail-scheduler 8080"),
        (f"http://127.0.0.1:{free_port()}", "the scheduler does not answer"),
    ],
    ids=["no address", "no answer"],
)
def test_a_service_that_is_not_there_is_one_message(tmp_path: Path, url: str, said: str) -> None:
    done = run(tmp_path, url)
    assert isinstance(done.exception, DovetailError)
    assert said in done.exception.message


@pytest.mark.parametrize("name", ["", "schedule"])
def test_a_service_that_does_not_exist_is_told_which_do(tmp_path: Path, name: str) -> None:
    here = {"DOVETAIL_DIRECTORY": str(tmp_path)}
    done = CliRunner().invoke(commands, ["profile", name], env=here)
    assert isinstance(done.exception, DovetailError)
    assert f"no service {name!r}; they are watcher, scheduler," in done.exception.message


@pytest.mark.parametrize("place", ["no/such/file", "."])
def test_a_file_that_cannot_be_written_is_named_before_anything_is_sampled(
    tmp_path: Path, place: str
) -> None:
    done = run(tmp_path, f"http://127.0.0.1:{free_port()}", "--output", str(tmp_path / place))
    assert isinstance(done.exception, DovetailError)
    assert done.exception.message.startswith("--output: ")


def test_a_file_that_cannot_be_written_after_all_is_named(tmp_path: Path) -> None:
    """``/dev/full`` is a place like any other until something is written there."""
    done = asyncio.run(profiled(tmp_path, "--output", "/dev/full"))
    assert isinstance(done.exception, DovetailError)
    assert done.exception.message.startswith("--output: ")
