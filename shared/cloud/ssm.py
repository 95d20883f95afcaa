"""SSM Parameter Store, in which AWS publishes the newest image ids (LCH-01..07)."""

from __future__ import annotations

from shared.cloud.client.calls import ServiceCalls


class Ssm:
    """The one SSM call that Dovetail makes."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls

    async def parameter(self, path: str) -> str:
        """The value of the parameter ``path``. Raises NotFound when there is none."""
        answer = await self._calls.read("get_parameter", Name=path)
        return str(answer["Parameter"]["Value"])
