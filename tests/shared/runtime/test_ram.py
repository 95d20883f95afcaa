"""What a start spares itself comes back when it is over."""

from __future__ import annotations

import gc

import pytest

from shared.runtime.ram import uncollected


def test_garbage_is_looked_for_again_after_the_imports() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_also_after_an_import_that_failed() -> None:
    with pytest.raises(ModuleNotFoundError), uncollected():
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert gc.isenabled()
