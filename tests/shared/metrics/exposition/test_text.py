"""Our own Prometheus text is read as the library's is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.metrics.declaring import GAUGE, Declared
from shared.metrics.exposition.text import block, labelled
from tests.support.metrics.pages import Scraped

LABELS = ("node", "pool")
DECLARED = Declared("things", GAUGE, "Things.", LABELS, ("scheduler",))
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters='\n"\\'))


@given(st.dictionaries(st.tuples(TEXTS, TEXTS), st.floats(allow_nan=False) | st.integers(0, 2**50)))
def test_any_label_values_and_numbers_come_back(rows: dict[tuple[str, str], float]) -> None:
    text = block(DECLARED, ((labelled(LABELS, key), value) for key, value in rows.items()))
    scraped = Scraped(text)
    for (node, pool), value in rows.items():
        assert scraped.value("things", node=node, pool=pool) == value


def test_a_gauge_without_labels_has_one_row() -> None:
    assert Scraped(block(DECLARED, [("", 1.5)])).value("things") == 1.5
