"""JSON documents as a user, or somebody worse, may have written them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

META = {
    "uid": "uid-1",
    "name": "one",
    "namespace": "default",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def document(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    """An object as the API server returns it."""
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {**META, **metadata},
        "spec": spec,
        "status": status,
    }


def json_values(*words: str) -> st.SearchStrategy[Any]:
    """Any JSON; objects often have the given keys, text is often one of them."""
    known = st.sampled_from(words)
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), known,
        st.text(max_size=8),
    )  # fmt: skip
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.one_of(known, st.text(max_size=4)), inner, max_size=6),
        ),
        max_leaves=12,
    )


def objects(*words: str) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects that have some of the given keys, with any values."""
    return st.dictionaries(st.sampled_from(words), json_values(*words), max_size=8)
