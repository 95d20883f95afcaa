"""How often the code of a mutant runs is counted in the sound code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from simulation.mutants import loaded_code, reach
from simulation.mutants.loaded_code import LoadedCode
from simulation.mutants.mutant import Mutant
from simulation.mutants.reach import Reach, table

SOURCE = """
SCRIPT = "return 1"

def sell(price):
    if price > 10:
        return "dear"
    sold = [price]
    return sold

async def buy(prices):
    for price in prices:
        try:
            sell(price)
        except ValueError:
            pass
"""
DEAR = Mutant("dear", "counted_shop.py", "    if price > 10:", "    if False:", "nothing is dear")
SOLD = Mutant("sold", "counted_shop.py", "    sold = [price]", "    sold = []", "nothing is sold")
TEXT = Mutant("text", "counted_shop.py", "return 1", "return 2", "a script for Redis")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An imported module of a project that has no other."""
    path = tmp_path / "counted_shop.py"
    path.write_text(SOURCE)
    for module in (loaded_code, reach):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    spec = importlib.util.spec_from_file_location("counted_shop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "counted_shop", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_runs_of_a_statement_and_of_its_body_are_counted(shop: Any) -> None:
    counted = Reach()
    counted.watch(LoadedCode(), [DEAR, SOLD, TEXT])
    assert [shop.sell(price) for price in (5, 20, 6)] == [[5], "dear", [6]]
    assert counted.counts == {"dear": 3, "dear body": 1, "sold": 2}
    assert [*table([DEAR, SOLD, TEXT], {"quiet": counted.counts})] == [
        "dear: quiet 3, body 1",
        "sold: quiet 2",
        "text: quiet 0",
    ]


def test_a_statement_inside_others_is_found(shop: Any) -> None:
    counted = Reach()
    inner = Mutant("inner", "counted_shop.py", "            sell(price)", "            pass", "x")
    counted.watch(LoadedCode(), [inner])
    with pytest.raises(StopIteration):
        shop.buy((1, 2)).send(None)
    assert counted.counts == {"inner": 2}
