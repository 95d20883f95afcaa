"""Private addresses: each subnet assigns addresses that were never used first, so host names are not reused at once.

moto's own subnets assign a freed address to the next instance, and a new node would then have the name of the node that
just ended.
"""

from __future__ import annotations

import ipaddress
from typing import Any

RESERVED_AT_START = 4
"""AWS reserves the first four addresses of a subnet and the last one."""


def leave_free(subnet: Any, number: int) -> None:
    """Set the number of free addresses of ``subnet``; later launches reduce it."""
    subnet._available_ip_addresses = number + len(subnet._subnet_ips)


def restore(subnet: Any) -> None:
    """Make every address of the subnet's range free again."""
    subnet._available_ip_addresses = subnet.cidr.num_addresses - RESERVED_AT_START - 1


class Addresses:
    """The position in each subnet at which the search continues."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def take(self, subnet: Any, owner: Any) -> str | None:
        """A free address, reserved in the subnet for ``owner``, or None when the subnet is full."""
        network: ipaddress.IPv4Network = subnet.cidr
        size = network.num_addresses - RESERVED_AT_START - 1
        start = self._next.get(subnet.id, 0)
        for step in range(size):
            offset = (start + step) % size
            address = str(network[RESERVED_AT_START + offset])
            if address not in subnet._subnet_ips:
                self._next[subnet.id] = offset + 1
                subnet.request_ip(address, owner)
                return address
        return None

    def clear(self) -> None:
        """Start again at the first address."""
        self._next.clear()
