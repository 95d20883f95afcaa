"""Where the archive's documents are: a directory, or a bucket (``shared.cloud.buckets``)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from shared.errors import NotFound, Unavailable
from shared.simulation.decisions.retention import Stored

Work = ParamSpec("Work")
Result = TypeVar("Result")


class Store(Protocol):
    """Named documents. Every method raises Unavailable while the store does not work."""

    async def put(self, name: str, document: bytes) -> None:
        """Write the whole document, or nothing of it; an existing one is replaced."""
        ...

    async def get(self, name: str) -> bytes:
        """Raises NotFound."""
        ...

    async def listing(self, prefix: str) -> list[Stored]:
        """All documents whose names begin with ``prefix``, sorted by name."""
        ...

    async def delete(self, name: str) -> None:
        """A document that is gone is no error."""
        ...

    async def close(self) -> None:
        """Give back what it holds."""
        ...


@dataclass(frozen=True)
class DirectoryStore:
    """Documents as files below one directory, which is created when something is written."""

    root: Path

    async def put(self, name: str, document: bytes) -> None:
        await self._in_thread("written", self._put, name, document)

    async def get(self, name: str) -> bytes:
        return await self._in_thread("read", self._get, name)

    async def listing(self, prefix: str) -> list[Stored]:
        return await self._in_thread("listed", self._list, prefix)

    async def delete(self, name: str) -> None:
        await self._in_thread("deleted", self._delete, name)

    async def close(self) -> None:
        """It holds nothing."""

    async def _in_thread(
        self, what: str, work: Callable[Work, Result], *arguments: Work.args, **named: Work.kwargs
    ) -> Result:
        try:
            return await asyncio.to_thread(work, *arguments, **named)
        except OSError as error:
            raise Unavailable(
                f"the archive {self.root} cannot be {what}: {error.strerror or error}"
            ) from error

    def _put(self, name: str, document: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when it is whole: a reader, and a crash in between, must not find half of it.
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        try:
            partial.write_bytes(document)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise

    def _get(self, name: str) -> bytes:
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"the archive has no {name}") from error

    def _list(self, prefix: str) -> list[Stored]:
        return sorted(self._found(prefix))

    def _found(self, prefix: str) -> Iterator[Stored]:
        for folder, _, names in os.walk(self.root / prefix.rpartition("/")[0]):
            for file in names:
                path = Path(folder, file)
                name = path.relative_to(self.root).as_posix()
                if not name.startswith(prefix) or file.endswith(".partial"):
                    continue
                try:
                    status = path.stat()
                except FileNotFoundError:
                    continue  # retention of the scheduler deleted it meanwhile
                yield Stored(name, status.st_size, status.st_mtime)

    def _delete(self, name: str) -> None:
        path = self.root / name
        path.unlink(missing_ok=True)
        try:
            path.parent.rmdir()
        except OSError:
            return  # other documents are there
