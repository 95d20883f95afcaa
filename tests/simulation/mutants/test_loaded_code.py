"""A mutant that is put into imported code changes what callers get, wherever they imported it from."""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulation.mutants import loaded_code
from simulation.mutants.loaded_code import LoadedCode
from simulation.mutants.mutant import Mutant

SOURCE = '''
SCRIPT = "return 1"
TEXT = "same"

class Shop:
    """Sells."""

    @property
    def price(self):
        return self.base() + 1

    def base(self):
        def inner():
            return 10
        return inner()

def run():
    return SCRIPT
'''


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An imported module of a project that has no other."""
    path = tmp_path / "shop.py"
    path.write_text(SOURCE)
    monkeypatch.setattr(loaded_code, "PROJECT", tmp_path)
    spec = importlib.util.spec_from_file_location("shop_of_this_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "shop_of_this_test", module)
    spec.loader.exec_module(module)
    return module


def change(old: str, new: str) -> None:
    LoadedCode().apply(Mutant("m", "shop.py", old, new, "all"))


@pytest.mark.slow
def test_a_weak_proxy_of_a_lost_object_is_passed_over() -> None:
    """The collector lists it, and asking for its class raises."""
    lost = weakref.proxy(type("Lost", (), {})())
    gc.collect()
    with pytest.raises(ReferenceError):
        isinstance(lost, int)
    assert LoadedCode()


def test_methods_properties_and_inner_functions_are_changed(shop: Any) -> None:
    one = shop.Shop()
    assert one.price == 11
    change("return self.base() + 1", "return self.base() + 2")
    assert one.price == 12


def test_an_inner_function_is_changed_with_the_outer_one(shop: Any) -> None:
    one = shop.Shop()
    change("            return 10", "            return 20")
    assert one.price == 21


def test_a_constant_is_changed(shop: Any) -> None:
    """A script for Redis is one."""
    change('return 1"', 'return 2"')
    assert shop.run() == "return 2"


@pytest.mark.slow
def test_a_change_without_effect_is_refused(shop: Any) -> None:
    with pytest.raises(ValueError, match=r"mutant m changes nothing that shop\.py has loaded"):
        change('"""Sells."""', '"""Buys."""')


def test_a_module_that_is_not_imported_is_refused(shop: Any, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match=r"other\.py is not imported"):
        LoadedCode().apply(Mutant("m", "other.py", "x = 1", "x = 2", "all"))


@pytest.mark.parametrize(
    ("old", "new"),
    [("self.base() + 1", "self.base() + 2"), ('return 1"', 'return 2"')],
    ids=["a function", "a constant"],
)
def test_whether_a_mutant_changes_something_is_known_without_it(
    shop: Any, old: str, new: str
) -> None:
    """A run that ended because nothing could be changed once counted as one that had found the mutant."""
    code = LoadedCode()
    code.require(Mutant("m", "shop.py", old, new, "all"))
    assert (shop.Shop().price, shop.run()) == (11, "return 1")
    with pytest.raises(ValueError, match=r"mutant m changes nothing that shop\.py has loaded"):
        code.require(Mutant("m", "shop.py", '"""Sells."""', '"""Buys."""', "all"))
