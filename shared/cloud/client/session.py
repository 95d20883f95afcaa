"""The AWS client: one aiobotocore session per process, with one client per service, created at first use.

    cloud = await Cloud.connect(region="us-west-2", endpoint_url=None, clock=clock, ...)
    try:
        await cloud.ec2.ping()
    finally:
        await cloud.close()

A process that only reads SQS never loads the EC2 model. Service models are read in a thread (``warm_up_loader_caches``)
and large answers are parsed in a thread (``shared.cloud.client.answers``), so they do not block the event loop.

What may go wrong: ``connect`` raises ``ConfigurationError`` without a region or credentials; credentials that expire
later cause ``Unauthorized`` on a call. ``close`` must run on the event loop that created the clients.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from random import Random
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.credentials import (
    AioAssumeRoleCredentialFetcher,
    AioDeferredRefreshableCredentials,
)
from aiobotocore.session import AioSession
from botocore.loaders import Loader

from shared.cloud.autoscaling import AutoScaling
from shared.cloud.catalogue.pricing import Pricing, pricing_region
from shared.cloud.client.answers.parsing import ThreadedParserFactory
from shared.cloud.client.calls import ServiceCalls
from shared.cloud.client.errors import missing_credentials, missing_region, status_of, translated
from shared.cloud.client.models import CompactFileLoader
from shared.cloud.client.user_agent import SteadyUserAgent
from shared.cloud.ec2.calls import Ec2
from shared.cloud.ec2.dry_runs import DryRuns
from shared.cloud.ec2.instance_status import InstanceStatuses
from shared.cloud.ec2.launch_templates import LaunchTemplates
from shared.cloud.eks import Eks
from shared.cloud.events import Events
from shared.cloud.iam import Iam
from shared.cloud.lookups import Ssm, ZonalShift
from shared.cloud.sqs import Sqs
from shared.concurrency.clock import Clock
from shared.errors import DovetailError

CONNECT_TIMEOUT_SECONDS = 5
READ_TIMEOUT_SECONDS = 30
QUEUE_READ_TIMEOUT_SECONDS = 40
"""Longer than SQS's longest poll of 20 s, or every poll of an empty queue would time out."""
POOL_CONNECTIONS = 50


@cache
def _models() -> Loader:
    """A loader that all sessions of the process share: it caches each model, and reading EC2's takes 0.2 s."""
    return Loader(file_loader=CompactFileLoader())


Observer = Callable[[str, float, str], None]
"""Called with AWS's name of the operation, seconds, and the error code (empty for a success)."""
Counter = Callable[[str, str, int, float], None]
"""Called with the service, AWS's name of the operation, the HTTP status (0: no answer) and seconds."""


@dataclass(frozen=True)
class Role:
    """An IAM role to assume for all calls (OPS-04: aws.assumeRoleARN, aws.assumeRoleDuration)."""

    arn: str
    session_seconds: int
    session_name: str


def _assume_role(
    session: AioSession, found: Any, role: Role, region: str, endpoint_url: str | None
) -> None:
    """Sign calls with the role's credentials, which are fetched at the first call and again before they expire."""
    fetcher = AioAssumeRoleCredentialFetcher(
        partial(session.create_client, region_name=region, endpoint_url=endpoint_url),
        found,
        role.arn,
        extra_args={"DurationSeconds": role.session_seconds, "RoleSessionName": role.session_name},
    )
    assumed = AioDeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
    session._credentials = assumed  # the client library has no setter for these


@dataclass(eq=False)
class Cloud:
    """All AWS services that Dovetail calls. The client of a service is created at its first call."""

    session: AioSession
    executor: ThreadPoolExecutor
    region: str
    endpoint_url: str | None
    clock: Clock
    random: Random
    user_agent: str

    def __post_init__(self) -> None:
        self._stack = AsyncExitStack()
        self._stack.callback(self.executor.shutdown, wait=False)
        self._opening = asyncio.Lock()
        self.observer: Observer | None = None
        self.attempt_counter: Counter | None = None
        """Called after each attempt at a request."""
        self.request_counter: Counter | None = None
        """Called after each request with all its attempts."""
        self._clients: dict[str, Any] = {}
        self.ec2 = Ec2(self._calls("ec2"), clock=self.clock)
        self.instance_statuses = InstanceStatuses(self._calls("ec2"))
        self.launch_templates = LaunchTemplates(self._calls("ec2"))
        self.dry_runs = DryRuns(self._calls("ec2"))
        self.ssm = Ssm(self._calls("ssm"))
        self.sqs = Sqs(self._calls("sqs", read_timeout=QUEUE_READ_TIMEOUT_SECONDS, read_attempts=1))
        self.events = Events(self._calls("events"))
        self.autoscaling = AutoScaling(self._calls("autoscaling"))
        self.zonal_shift = ZonalShift(self._calls("arc-zonal-shift"))
        self.pricing = Pricing(self._calls("pricing", region=pricing_region(self.region)))
        self.eks = Eks(self._calls("eks"))
        self.iam = Iam(self._calls("iam"))

    @classmethod
    async def connect(
        cls,
        *,
        region: str,
        endpoint_url: str | None,
        clock: Clock,
        random: Random,
        user_agent: str,
        role: Role | None = None,
        access_key: tuple[str, str] | None = None,
    ) -> Cloud:
        """Find credentials; no AWS API is called yet (``ec2.ping`` does). With ``role`` they serve only to assume it.
        ``access_key``: id and secret of the credentials to use.

        Raises ConfigurationError.
        """
        if not region:
            raise missing_region()
        session = AioSession()
        if access_key is not None:
            session.set_credentials(*access_key)
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="aws-parser")
        session.register_component("response_parser_factory", ThreadedParserFactory(executor))
        session.register_component("data_loader", _models())
        session.register_component("user_agent_creator", SteadyUserAgent.from_environment())
        with translated("credentials"):
            found = await session.get_credentials()
            if found is None:
                raise missing_credentials()
        if role is not None:
            _assume_role(session, found, role, region, endpoint_url or None)
        return cls(session, executor, region, endpoint_url or None, clock, random, user_agent)

    async def close(self) -> None:
        """Close all connections. A second call does nothing."""
        self._clients.clear()
        await self._stack.aclose()

    def _calls(
        self,
        service: str,
        *,
        region: str | None = None,
        read_timeout: int = READ_TIMEOUT_SECONDS,
        read_attempts: int | None = None,
    ) -> ServiceCalls:
        opener: Callable[[], Awaitable[Any]] = partial(
            self._client, service, region or self.region, read_timeout
        )
        attempts = {} if read_attempts is None else {"read_attempts": read_attempts}
        return ServiceCalls(
            service,
            opener,
            random=self.random,
            observed=partial(self._observed, service),
            requested=partial(self._requested, service),
            **attempts,
        )

    @contextmanager
    def _observed(self, service: str, method: str) -> Iterator[None]:
        """Report one attempt, successful or not."""
        started, code, status = self.clock.monotonic(), "", 200
        try:
            yield
        except DovetailError as error:
            code = str(error.context.get("code") or type(error).__name__)
            status = status_of(error)
            raise
        finally:
            seconds = self.clock.monotonic() - started
            if self.observer is not None:
                self.observer(method, seconds, code)
            if self.attempt_counter is not None:
                self.attempt_counter(service, method, status, seconds)

    @contextmanager
    def _requested(self, service: str, method: Callable[[], str]) -> Iterator[None]:
        """Report one request, successful or not."""
        started, status = self.clock.monotonic(), 200
        try:
            yield
        except DovetailError as error:
            status = status_of(error)
            raise
        finally:
            if self.request_counter is not None:
                seconds = self.clock.monotonic() - started
                self.request_counter(service, method(), status, seconds)

    async def _client(self, service: str, region: str, read_timeout: int) -> Any:
        async with self._opening:
            if service not in self._clients:
                context = self.session.create_client(
                    service,
                    region_name=region,
                    endpoint_url=self.endpoint_url,
                    config=self._config(read_timeout),
                )
                self._clients[service] = await self._stack.enter_async_context(context)
                # Service models stay for the life of the process: 300,000 objects. Frozen, they are not visited by
                # full garbage collections, which would otherwise block the loop for 60 ms each.
                gc.freeze()
            return self._clients[service]

    def _config(self, read_timeout: int) -> AioConfig:
        return AioConfig(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=read_timeout,
            max_pool_connections=POOL_CONNECTIONS,
            retries={"mode": "standard", "total_max_attempts": 1},
            user_agent_extra=self.user_agent,
            warm_up_loader_caches=True,
        )
