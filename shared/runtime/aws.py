"""The connection to AWS. Only the services that call AWS import this module and its client library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from shared.cloud.client.session import Cloud, Role
from shared.distribution.version import VERSION
from shared.runtime.environment import Environment, reach
from shared.settings import AwsSettings

Config = TypeVar("Config", bound=AwsSettings)


async def ping_ec2(cloud: Cloud) -> None:
    """Check region, network, credentials and permission with a dry run."""
    await cloud.ec2.ping()


def role_of(settings: AwsSettings) -> Role | None:
    """The role to assume for AWS calls; None to use the credentials directly."""
    if not settings.assume_role_arn:
        return None
    return Role(settings.assume_role_arn, int(settings.assume_role_duration), "dovetail")


async def open_cloud(
    env: Environment[Config], *, ping: Callable[[Cloud], Awaitable[None]] = ping_ec2
) -> Cloud:
    """Connect with the service's settings and check with ``ping`` that AWS responds (OPS-12).

    Raises ConfigurationError that names the cause and the variable to check.
    """
    settings = env.settings
    cloud = await Cloud.connect(
        region=settings.aws_region,
        endpoint_url=settings.aws_endpoint_url,
        clock=env.clock,
        random=env.random,
        user_agent=f"dovetail/{VERSION}",
        role=role_of(settings),
        access_key=env.access_key,
    )
    cloud.observer = env.metrics.count_call
    cloud.attempt_counter = env.metrics.count_aws_attempt
    cloud.request_counter = env.metrics.count_aws_request
    env.stack.push_async_callback(cloud.close)
    where = settings.aws_endpoint_url or f"region {settings.aws_region}"
    variables = "AWS_ENDPOINT_URL and AWS_REGION"
    patience = settings.connect_timeout
    await reach(f"AWS at {where}", variables, lambda: ping(cloud), env.clock, patience)
    return cloud
