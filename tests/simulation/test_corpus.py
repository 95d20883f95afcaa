"""Seeds that failed once, in a process of their own: the simulation changes moto, the clock and much else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.runner.corpus import CORPUS, read_corpus

PROJECT = Path(__file__).resolve().parents[2]


def simulate(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "simulation", *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.started_first
@pytest.mark.timeout(600)
def test_every_seed_of_the_corpus_holds() -> None:
    ended = simulate("--corpus", "--jobs", "2")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_line_of_the_corpus_says_why_it_is_there() -> None:
    lines = [line for line in CORPUS.read_text().splitlines() if not line.startswith("#")]
    assert len(read_corpus()) == len(lines)
    assert all(line.partition("#")[2].strip() for line in lines)


@pytest.mark.parametrize("line", ["1 mixed", "one mixed 5", "1 sunny 5", "1 mixed 5 6"])
def test_a_line_that_cannot_be_read_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text(f"# seeds\n{line}\n")
    with pytest.raises(ValueError, match=r"corpus\.txt, line 2"):
        read_corpus(path)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("seed", "scenario"),
    [
        ("7", "mixed"),
        ("59", "mixed"),
        ("2000", "refusals"),
        ("9", "limits"),
        ("6", "features"),
        ("3", "annotations"),
        ("3", "lowest-cost"),
    ],
)
def test_a_seed_gives_the_same_run_in_every_process(seed: str, scenario: str) -> None:
    """Byte for byte of what is sent: Python gives sets another order in each process."""
    what = ("--first-seed", seed, "--scenario", scenario, "--minutes", "2")
    hashes = {
        line
        for hash_seed in ("1", "3")
        for line in simulate(*what, PYTHONHASHSEED=hash_seed).stdout.splitlines()
        if line.startswith("trace hash ")
    }
    assert len(hashes) == 1, hashes


UNABLE = """
import sys
from shared.log import configure
from simulation import run
from simulation.runner.main import run as run_seeds
from simulation.runner.options import parse

class Unable:
    name, kinds = "unable", ("api",)

    def check(self, event, world):
        if event.fields["resource"] == "pods":
            raise KeyError("no such field")
        return []

run.all_safety = lambda: [Unable()]
configure("critical")
sys.exit(run_seeds(parse(["--minutes", "0.5", "--scenario", "quiet"])))
"""


def test_an_invariant_that_cannot_judge_ends_the_run() -> None:
    """Its error comes up within the API server, which would answer with "internal error", and nothing would run."""
    command = [sys.executable, "-c", UNABLE]
    ended = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "KeyError: 'no such field'" in ended.stdout + ended.stderr
