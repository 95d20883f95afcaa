"""S3-compatible storage for the archive of decision records (``shared.runtime.archive.store.Store``).

The client is opened at the first call, on the event loop of that call. What may go wrong: every error is translated
(``shared.cloud.client.errors``); nothing is repeated here, because the recorder does that later.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession

from shared.cloud.client.errors import translated
from shared.errors import DovetailError, NotFound, Unavailable
from shared.simulation.decisions.retention import Stored

CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 30
MOST_PAGES = 2000
"""Of 1,000 documents; a server that never ends its pages must not keep the caller for ever."""
DEFAULT_REGION = "us-east-1"
_ABSENT = frozenset({"NoSuchKey", "404"})


@dataclass
class BucketStore:
    """Documents as objects of one bucket, below ``prefix``. ``endpoint_url`` None: that of AWS."""

    bucket: str
    prefix: str
    endpoint_url: str | None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _opened: Any = None

    async def put(self, name: str, document: bytes) -> None:
        await self._call("put_object", Key=self._key(name), Body=document)

    async def get(self, name: str) -> bytes:
        answer = await self._call("get_object", Key=self._key(name))
        with translated("s3:GetObject"):
            async with answer["Body"] as body:
                document: bytes = await body.read()
        return document

    async def listing(self, prefix: str) -> list[Stored]:
        found: list[Stored] = []
        more: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            answer = await self._call("list_objects_v2", Prefix=self._key(prefix), **more)
            found += map(self._stored, answer.get("Contents") or ())
            if not answer.get("IsTruncated"):
                return sorted(found)
            more = {"ContinuationToken": answer["NextContinuationToken"]}
        raise Unavailable(f"the bucket {self.bucket} lists more than {MOST_PAGES} pages")

    async def delete(self, name: str) -> None:
        await self._call("delete_object", Key=self._key(name))

    async def close(self) -> None:
        """Close all connections."""
        self._opened = None
        await self._stack.aclose()

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _stored(self, found: dict[str, Any]) -> Stored:
        name = found["Key"].removeprefix(f"{self.prefix}/") if self.prefix else found["Key"]
        return Stored(name, found["Size"], found["LastModified"].timestamp())

    async def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        client = await self._client()
        permission = f"s3:{client.meta.method_to_api_mapping[operation]}"
        try:
            with translated(permission):
                answer: dict[str, Any] = await getattr(client, operation)(
                    Bucket=self.bucket, **parameters
                )
        except DovetailError as error:
            if error.context.get("code") in _ABSENT:
                raise NotFound(f"the archive has no {parameters.get('Key')}") from error
            raise
        return answer

    async def _client(self) -> Any:
        async with self._opening:
            if self._opened is None:
                session = AioSession()
                config = AioConfig(
                    connect_timeout=CONNECT_TIMEOUT_SECONDS,
                    read_timeout=READ_TIMEOUT_SECONDS,
                    retries={"mode": "standard", "total_max_attempts": 1},
                    # Other storages than AWS's seldom have a name for each bucket.
                    s3={"addressing_style": "path"} if self.endpoint_url else {},
                    warm_up_loader_caches=True,
                )
                region = session.get_config_variable("region") or DEFAULT_REGION
                with translated("credentials"):
                    context = session.create_client(
                        "s3", region_name=region, endpoint_url=self.endpoint_url, config=config
                    )
                    self._opened = await self._stack.enter_async_context(context)
            return self._opened
