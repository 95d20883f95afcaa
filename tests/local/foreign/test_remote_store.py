"""Kinds that the local kubelets of an existing cluster do not use are refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from local.foreign.kubeconfig import KubeContext
from local.foreign.remote_store import RemoteStore, UnwatchedKind

CALLS: dict[str, Callable[[RemoteStore], object]] = {
    "find": lambda store: store.find("leases", "a", group="coordination.k8s.io"),
    "create": lambda store: store.create(
        "leases", {"metadata": {"name": "a"}}, group="coordination.k8s.io"
    ),
    "update": lambda store: store.update(
        "leases", {"metadata": {"name": "a"}}, subresource="status"
    ),
    "patch": lambda store: store.patch("leases", "a", {}),
    "delete": lambda store: store.delete("leases", "a", group="coordination.k8s.io"),
}


def store() -> RemoteStore:
    """A store whose server is never asked: the kind is checked first."""
    return RemoteStore(KubeContext("a", {"server": "http://127.0.0.1:1"}, {}), {})


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_a_kind_that_is_not_watched_is_an_error_that_names_it(
    call: Callable[[RemoteStore], object],
) -> None:
    with pytest.raises(UnwatchedKind, match="leases"):
        call(store())


def test_a_watched_name_of_another_group_is_not_that_kind() -> None:
    with pytest.raises(UnwatchedKind, match=r"pods\.metrics\.k8s\.io"):
        store().find("pods", "a", group="metrics.k8s.io")
