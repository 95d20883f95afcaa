"""Lists of the same objects again and again: only what changed is read (R2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Unavailable
from shared.kube.listing import Unchanged

Json = dict[str, Any]
OBJECTS = st.lists(
    st.builds(
        lambda name, version, text: {
            "metadata": {"uid": name, "resourceVersion": version},
            "spec": text,
        },
        st.sampled_from("abc"),
        st.sampled_from("12"),
        st.sampled_from(("", "x", "y")),
    ),
    max_size=6,
)


class Reader:
    """Reads objects, and counts how often."""

    def __init__(self) -> None:
        self.read: list[Json] = []
        self.unchanged = Unchanged(self._read)

    def _read(self, raw: Json) -> str:
        self.read.append(raw)
        return text_of(raw)

    async def of(self, objects: Sequence[Json], *, breaks_off: bool = False) -> list[str]:
        async def read_all(read: Callable[[Json], str]) -> Sequence[str]:
            found = [read(raw) for raw in objects]
            if breaks_off:
                raise Unavailable("the list broke off")
            return found

        self.read.clear()
        return await self.unchanged.listed(read_all)


def text_of(raw: Json) -> str:
    return f"{raw['metadata']['uid']} {raw['spec']}"


@given(lists=st.lists(OBJECTS, max_size=4))
async def test_every_list_is_as_if_all_objects_were_read(lists: list[list[Json]]) -> None:
    reader, before = Reader(), list[Json]()
    for objects in lists:
        assert await reader.of(objects) == [text_of(raw) for raw in objects]
        assert all(raw not in before for raw in reader.read)
        before = objects


async def test_an_object_with_other_contents_is_read_though_its_version_is_the_same() -> None:
    """After etcd was rolled back, versions are given again."""
    reader = Reader()
    old, new = ({"metadata": {"uid": "a", "resourceVersion": "7"}, "spec": text} for text in "xy")
    assert await reader.of([old]) == ["a x"]
    assert await reader.of([new]) == ["a y"]


async def test_only_the_last_complete_list_is_remembered() -> None:
    """Or memory would grow with all that ever was."""
    reader = Reader()
    first, second = ({"metadata": {"uid": uid}, "spec": ""} for uid in "ab")
    await reader.of([first])
    with pytest.raises(Unavailable):
        await reader.of([second], breaks_off=True)
    await reader.of([first])
    assert reader.read == []
    await reader.of([second])
    await reader.of([first])
    assert reader.read == [first]
