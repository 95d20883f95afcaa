"""Two services of which Dovetail makes one call each: SSM Parameter Store and ARC zonal shift."""

from __future__ import annotations

from shared.cloud.client.calls import AwsService, Json

APPLIED = "APPLIED"


class ZonalShift(AwsService):
    """The one ARC call that Dovetail makes."""

    async def shifted_zones(self, arn: str) -> frozenset[str]:
        """Ids of the zones that the resource is shifted away from, manually or by AWS's autoshift. Raises NotFound."""
        answer = await self._calls.read("get_managed_resource", resourceIdentifier=arn)
        shifts = (*(answer.get("zonalShifts") or ()), *(answer.get("autoshifts") or ()))
        return frozenset(one["awayFrom"] for one in shifts if _is_applied(one))


def _is_applied(shift: Json) -> bool:
    return shift.get("appliedStatus") == APPLIED and bool(shift.get("awayFrom"))


class Ssm(AwsService):
    """The one SSM call that Dovetail makes."""

    async def parameter(self, path: str) -> str:
        """The value of the parameter ``path``. Raises NotFound when there is none."""
        answer = await self._calls.read("get_parameter", Name=path)
        return str(answer["Parameter"]["Value"])
