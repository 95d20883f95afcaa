"""Opens the archive that an address names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.distribution.version import VERSION, commit
from shared.errors import ConfigurationError
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.store import DirectoryStore, Store
from shared.simulation.decisions.names import role_of
from shared.simulation.decisions.records import Versions

BUCKET = "s3://"


@asynccontextmanager
async def opened(place: ArchivePlace) -> AsyncIterator[Archive]:
    """The records of one scheduler. Raises ConfigurationError for an empty address."""
    store = open_store(place.address, endpoint_url=place.endpoint_url)
    try:
        yield Archive(store, place.cluster, role_of(place.shadow))
    finally:
        await store.close()


def open_store(address: str, *, endpoint_url: str = "") -> Store:
    """``address``: a directory, or ``s3://BUCKET/PREFIX``; ``endpoint_url``: of another storage than AWS's.

    Nothing is read or written yet. Raises ConfigurationError for an empty address.
    """
    if not address:
        raise ConfigurationError("no archive: name one by --store, or set RECORD_STORE")
    if not address.startswith(BUCKET):
        return DirectoryStore(Path(address))
    # Only here: the client library takes time and memory, and a directory needs none of it.
    from shared.cloud.buckets import BucketStore

    bucket, _, prefix = address.removeprefix(BUCKET).partition("/")
    return BucketStore(bucket, prefix.strip("/"), endpoint_url or None)


def versions_now() -> Versions:
    """Of this process. Starts git in a checkout, so call it once, at the start."""
    import platform
    from importlib.metadata import version

    packages = {name: version(name) for name in ("highspy", "numpy")}
    return Versions(VERSION, commit(), platform.python_version(), packages)
