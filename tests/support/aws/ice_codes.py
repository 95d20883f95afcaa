"""Codes by which EC2 says that it has no capacity, written from the specification and not from our code."""

from __future__ import annotations

ICE = (
    "InsufficientInstanceCapacity",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "ReservationCapacityExceeded",
)
"""LCH-60, as the behaviour spec lists them."""
