"""EC2NodeClasses as users write them: the least and the most that one can say."""

from __future__ import annotations

from typing import Any

DISCOVERY = {"karpenter.sh/discovery": "demo"}
LEAST: dict[str, Any] = {
    "subnetSelectorTerms": [{"tags": DISCOVERY}],
    "securityGroupSelectorTerms": [{"tags": DISCOVERY}],
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "role": "demo-node",
}
EVERYTHING: dict[str, Any] = {
    "subnetSelectorTerms": [{"tags": DISCOVERY}, {"id": "subnet-0a1"}],
    "securityGroupSelectorTerms": [{"name": "nodes"}, {"id": "sg-0a1"}],
    "amiSelectorTerms": [
        {"name": "my-*", "owner": "self", "tags": {"team": "a"}},
        {"id": "ami-0a1"},
        {"ssmParameter": "/images/mine"},
    ],
    "capacityReservationSelectorTerms": [
        {"id": "cr-0a1"},
        {"ownerID": "012345678901", "instanceMatchCriteria": "open", "tags": {"team": "*"}},
    ],
    "placementGroupSelector": {"name": "tight"},
    "amiFamily": "AL2023",
    "instanceProfile": "demo-profile",
    "userData": "#!/bin/sh\ntrue\n",
    "context": "abc",
    "detailedMonitoring": True,
    "associatePublicIPAddress": False,
    "ipPrefixCount": 0,
    "instanceStorePolicy": "RAID0",
    "tags": {"team": "a"},
    "kubelet": {"maxPods": 20, "clusterDNS": ["10.0.0.10"], "cpuManagerPolicy": "static"},
    "blockDeviceMappings": [
        {
            "deviceName": "/dev/xvda",
            "rootVolume": True,
            "ebs": {
                "volumeSize": "100Gi",
                "volumeType": "gp3",
                "iops": 3000,
                "throughput": 125,
                "encrypted": True,
                "kmsKeyID": "alias/demo",
                "snapshotID": "snap-0a1",
                "deleteOnTermination": True,
                "volumeInitializationRate": 100,
            },
        }
    ],
    "metadataOptions": {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "enabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "optional",
    },
    "networkInterfaces": [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
    ],
    "connectionTracking": {
        "tcpEstablishedTimeout": "350s",
        "udpStreamTimeout": "60s",
        "udpTimeout": "30s",
    },
    "cpuOptions": {"nestedVirtualization": "enabled"},
    "enclaveOptions": {"enabled": True},
}


def changed(**fields: Any) -> dict[str, Any]:
    """The least spec with other fields; None takes a field away."""
    return {name: value for name, value in {**LEAST, **fields}.items() if value is not None}
