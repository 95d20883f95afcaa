"""Instances that are tagged for this cluster and boot for another one."""

from __future__ import annotations

import base64

from tests.local.cluster.kubelet.test_kubelet import BOOTSTRAP, cluster_on_aws, joined


async def test_an_instance_whose_user_data_names_another_cluster_never_joins() -> None:
    async with cluster_on_aws() as (emulator, cluster):
        elsewhere = BOOTSTRAP.replace("dovetail-local", "another")
        name = "ip-10-0-0-8.us-west-2.compute.internal"
        data = base64.b64encode(elsewhere.encode()).decode()
        emulator.launch("i-2", privateDnsName=name, userData=data)
        emulator.launch()
        await joined(cluster)
        assert cluster.store.find("nodes", name) is None
