"""Equal rows of a mask count once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from shared.solver.encode import Mask
from shared.solver.lowest_cost.problem import distinct_rows

MASKS = arrays(np.bool_, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.booleans())


@given(MASKS)
def test_equal_rows_are_one_kind_and_kinds_stand_in_numpys_order(rows: Mask) -> None:
    firsts, kinds = distinct_rows(rows)
    distinct, first_at, expected = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    assert (rows[firsts] == distinct).all()
    assert firsts.tolist() == first_at.tolist()
    assert kinds.tolist() == expected.reshape(-1).tolist()


def test_no_rows_are_no_kinds() -> None:
    firsts, kinds = distinct_rows(np.zeros((0, 3), dtype=np.bool_))
    assert (firsts.size, kinds.size) == (0, 0)
