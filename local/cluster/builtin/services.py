"""Services whose addresses are programs outside the cluster, such as the services of the local stack.

Each becomes a Service without selector and an Endpoints object, so that the subresource ``proxy`` reaches the program.
"""

from __future__ import annotations

import re

from local.cluster.storage.store import Store
from shared.errors import ConfigurationError

PORT = {"name": "status", "port": 8080}
_ONE = re.compile(r"([a-z0-9-]+)/([a-z0-9-]+)=http://([a-z0-9.-]+):([0-9]{1,5})")


def create_services(store: Store, text: str) -> None:
    """``text``: NAMESPACE/NAME=http://HOST:PORT, with commas. The namespaces must exist. Raises ConfigurationError."""
    for one in filter(None, text.split(",")):
        found = _ONE.fullmatch(one.strip())
        if found is None:
            raise ConfigurationError(
                f"SERVICE_URLS: {one!r} is not NAMESPACE/NAME=http://HOST:PORT"
            )
        namespace, name, address, port = found.groups()
        metadata = {"name": name}
        spec = {"type": "ClusterIP", "ports": [{**PORT, "targetPort": "status"}]}
        subset = {"addresses": [{"ip": address}], "ports": [{**PORT, "port": int(port)}]}
        store.create("services", {"metadata": metadata, "spec": spec}, namespace=namespace)
        endpoints = {"metadata": metadata, "subsets": [subset]}
        store.create("endpoints", endpoints, namespace=namespace)
