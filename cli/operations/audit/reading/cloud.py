"""EC2's instances of the cluster: by their tags, and by id those that machines name and the tags do not show.

The right that it needs is ec2:DescribeInstances.
"""

from __future__ import annotations

from collections.abc import Iterable

from services.launcher.garbage_collection.inventory import our_instances
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import Instance
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id

MOST_BY_ID = 500


async def read_instances(cloud: Cloud, cluster: str, machines: Iterable[Machine]) -> list[Instance]:
    """Those that are ours by their tags, and up to 500 others in every state. Raises DovetailError."""
    listed = await our_instances(cloud.ec2, cluster)
    named = {provider_instance_id(one.provider_id) for one in machines if not one.terminating}
    missing = sorted(named - listed.keys() - {""})[:MOST_BY_ID]
    # By id EC2 also shows instances that ended within the last hour, with the time of their end.
    ended = await cloud.ec2.instances(ids=missing) if missing else []
    return [*listed.values(), *ended]
