"""Checks the permissions of a launch with dry runs (EC-18).

EC2 answers ``DryRunOperation`` when the call would have been allowed. Any other error is raised: ``Unauthorized`` for a
missing permission, with the context ``code`` ``UnauthorizedOperation``.
"""

from __future__ import annotations

from shared.cloud.client.calls import AwsService, Json
from shared.errors import DovetailError

ALLOWED = "DryRunOperation"
DENIED = "UnauthorizedOperation"


class DryRuns(AwsService):
    """The three calls of a launch, each with ``DryRun``."""

    async def create_launch_template(self, request: Json) -> None:
        """Raises the error with which EC2 would refuse CreateLaunchTemplate with ``request``."""
        await self._attempt("create_launch_template", request)

    async def run_instances(self, request: Json) -> None:
        """Raises the error with which EC2 would refuse RunInstances with ``request``."""
        await self._attempt("run_instances", request)

    async def create_fleet(self, request: Json) -> None:
        """Raises the error with which EC2 would refuse CreateFleet with ``request``."""
        await self._attempt("create_fleet", request)

    async def _attempt(self, operation: str, request: Json) -> None:
        try:
            await self._calls.write(operation, launching=True, **request, DryRun=True)
        except DovetailError as error:
            if error.context.get("code") != ALLOWED:
                raise
