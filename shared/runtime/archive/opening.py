"""Opens the archive that an address names."""

from __future__ import annotations

from pathlib import Path

from shared.distribution.version import VERSION, commit
from shared.errors import ConfigurationError
from shared.runtime.archive.store import DirectoryStore, Store
from shared.simulation.decisions.changes import Versions

BUCKET = "s3://"


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

    deciding = ("common-expression-language", "highspy", "numpy")
    packages = {name: version(name) for name in deciding}
    return Versions(VERSION, commit(), platform.python_version(), packages)
