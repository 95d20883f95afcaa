"""Decision records in S3-compatible storage, as the emulator speaks it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.cloud.buckets import BucketStore
from shared.errors import DovetailError, NotFound, Unreachable
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.reading import Archive
from tests.support.network.status_server import free_port
from tests.support.records.days import CLUSTER, Day


@pytest.fixture
async def store(
    aws_emulator_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BucketStore]:
    """Of a bucket that exists."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "local")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "local")
    opened = open_store("s3://records-of-tests/prod/", endpoint_url=aws_emulator_url)
    assert isinstance(opened, BucketStore)
    await (await opened._client()).create_bucket(Bucket="records-of-tests")
    yield opened
    await opened.close()


async def test_documents_are_written_listed_read_and_deleted(store: BucketStore) -> None:
    await store.put("one/b.zst", b"second")
    await store.put("one/a.zst", b"first")
    await store.put("two/c.zst", b"third")
    found = await store.listing("one/")
    assert [(one.name, one.size) for one in found] == [("one/a.zst", 5), ("one/b.zst", 6)]
    assert all(one.written > 0 for one in found)
    assert await store.get("one/b.zst") == b"second"
    await store.delete("one/b.zst")
    await store.delete("one/b.zst")
    with pytest.raises(NotFound, match=r"the archive has no prod/one/b\.zst"):
        await store.get("one/b.zst")


async def test_a_day_is_recorded_in_a_bucket_and_restored_from_it(store: BucketStore) -> None:
    await Day(store, 3).run(6)
    archive = Archive(store, CLUSTER, "main")
    walked = [one async for one in archive.walk()]
    assert len(walked) == 6
    assert (await archive.restore(walked[3].record)).snapshot == walked[3].snapshot


async def test_a_bucket_that_does_not_exist_is_an_error_that_the_recorder_survives(
    store: BucketStore, aws_emulator_url: str
) -> None:
    absent = BucketStore("absent-of-tests", "", aws_emulator_url)
    with pytest.raises(DovetailError, match="bucket"):
        await absent.put("a", b"b")
    await absent.close()


async def test_a_storage_that_does_not_answer_is_unreachable(store: BucketStore) -> None:
    silent = BucketStore("records-of-tests", "", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unreachable):
        await silent.listing("")
    await silent.close()
