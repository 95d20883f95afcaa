"""Checks the permissions of a launch with dry runs (EC-18).

EC2 answers ``DryRunOperation`` when the call would have been allowed. Any other error is raised: ``Unauthorized`` for a
missing permission, with the context ``code`` ``UnauthorizedOperation``.
"""

from __future__ import annotations

from functools import partialmethod

from shared.cloud.client.calls import AwsService, Json
from shared.errors import DovetailError

ALLOWED = "DryRunOperation"
DENIED = "UnauthorizedOperation"


class DryRuns(AwsService):
    """The three calls of a launch and the one that ends it, each with ``DryRun``.

    Each takes the request and raises EC2's error for it.
    """

    async def _attempt(self, operation: str, request: Json) -> None:
        try:
            await self._calls.write(operation, launching=True, **request, DryRun=True)
        except DovetailError as error:
            if error.context.get("code") != ALLOWED:
                raise

    create_launch_template = partialmethod(_attempt, "create_launch_template")
    run_instances = partialmethod(_attempt, "run_instances")
    create_fleet = partialmethod(_attempt, "create_fleet")
    terminate_instances = partialmethod(_attempt, "terminate_instances")
