"""Seeds that failed once, and must never fail again. A line has seed, scenario and minutes, and after ``#`` why it is
there.
"""

from __future__ import annotations

from pathlib import Path

from simulation.faults import SCENARIOS

CORPUS = Path(__file__).resolve().parents[1] / "corpus.txt"


def read_corpus(path: Path = CORPUS) -> list[tuple[int, str, float]]:
    """(seed, scenario, minutes) of each line. Raises ValueError with the number of a line that cannot be read."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            seed, scenario, minutes = words
            entry = int(seed), scenario, float(minutes)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: seed scenario minutes  # why") from error
        if scenario not in SCENARIOS:
            raise ValueError(f"{path.name}, line {number}: there is no scenario {scenario}")
        found.append(entry)
    return found
