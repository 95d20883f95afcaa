"""SSM Parameter Store, in which AWS publishes the newest image ids (LCH-01..07)."""

from __future__ import annotations

from shared.cloud.client.calls import AwsService


class Ssm(AwsService):
    """The one SSM call that Dovetail makes."""

    async def parameter(self, path: str) -> str:
        """The value of the parameter ``path``. Raises NotFound when there is none."""
        answer = await self._calls.read("get_parameter", Name=path)
        return str(answer["Parameter"]["Value"])
