"""AWS, the API server and the network of a running stack, as faults and users reach them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from local.aws.emulator import load_catalogue
from simulation.chaos.processes import REQUEST_SECONDS
from simulation.chaos.ways.answers import EXPIRED, HALF_LINE
from simulation.chaos.ways.proxy import Proxy
from simulation.faults.fault import When

SLOW_READER_SECONDS = 1.0


class RealAws:
    """The emulator of the stack."""

    def __init__(self, url: str) -> None:
        self._url = url

    def control(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """POST to the control endpoint; {} when it refuses, as for an order that no instance matches."""
        return self._ask(path, json.dumps(body).encode())

    def instances(self) -> list[Mapping[str, Any]]:
        """Every instance, in the order of their launch."""
        return list(self._ask("instances", None).get("instances", ()))

    def _ask(self, path: str, data: bytes | None) -> Mapping[str, Any]:
        request = urllib.request.Request(f"{self._url}/_dovetail/{path}", data)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_SECONDS) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError:
            return {}


class ReadInstances:
    """The instances as they were read last, with what a person's console can do to one."""

    def __init__(self, aws: RealAws, types: Mapping[str, Any]) -> None:
        self._aws, self._types = aws, types
        self._found: list[Any] = []

    def read(self) -> None:
        """List them. Raises OSError."""
        self._found = [
            self._instance(number, row) for number, row in enumerate(self._aws.instances(), 1)
        ]

    def _instance(self, number: int, row: Mapping[str, Any]) -> Any:
        return SimpleNamespace(
            instance_id=row["instanceId"],
            sequence=number,
            state=row["state"],
            tags=row["tags"],
            zone=row["zone"],
            lifecycle=row["lifecycle"],
            launched_monotonic=row["launchedAt"],
            facts=self._types[row["instanceType"]],
        )

    def all(self) -> list[Any]:
        """In the order of their launch."""
        return self._found

    def get(self, instance_id: str) -> Any:
        """One of them; None for an unknown one."""
        return next((one for one in self._found if one.instance_id == instance_id), None)

    def terminate(self, instance: Any, _reason: object = None) -> None:
        """Terminate it by hand."""
        self._change(instance, "terminated")

    def stop(self, instance: Any) -> None:
        """Stop it by hand."""
        self._change(instance, "stopping")

    def _change(self, instance: Any, state: str) -> None:
        order = {"kind": "state-change", "state": state, "instanceId": instance.instance_id}
        self._aws.control("interruptions", order)


class ReadEmulator:
    """What promises and users ask of the emulator."""

    def __init__(self, aws: RealAws, cluster: str, region: str) -> None:
        self.catalogue = load_catalogue()
        self.settings = SimpleNamespace(cluster_name=cluster, region=region)
        self.inventory = ReadInstances(aws, self.catalogue.types)
        self.capacity = SimpleNamespace(left=lambda _offering: 1)
        """In the end, when promises ask, every order about capacity is taken back."""


class RealCluster:
    """The API server behind its proxy: only the services' way to it fails, and users and controllers go on."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def down(self, seconds: float) -> None:
        """Connections break and are refused."""
        self._proxy.down(seconds)

    def relist(self) -> None:
        """Every watch ends with 410, and its client must list again."""
        self._proxy.end_watches(EXPIRED)

    def truncate_watches(self) -> None:
        """Every watch ends in the middle of a line."""
        self._proxy.end_watches(HALF_LINE)

    def refuse(self, status: int, percent: float, seconds: float) -> None:
        """A share of the requests gets this status; 409 only those that change existing objects."""
        self._proxy.refuse(status, percent, seconds)


class RealNetwork:
    """The ways of the services (``launcher-0``) to the servers. ``proxies``: by the name of the server."""

    def __init__(self, proxies: Mapping[str, Proxy]) -> None:
        self._proxies = proxies

    def cut(self, a: str, b: str, when: When) -> None:
        """The next request of ``a`` to ``b`` is cut."""
        self._proxies[b].cut(service_of(a), when)

    def partition(self, a: str, b: str, seconds: float) -> None:
        """No byte passes."""
        self._proxies[b].hold(service_of(a), seconds)

    def half_open(self, a: str, b: str, seconds: float) -> None:
        """What ``a`` sends on its open connections is lost."""
        self._proxies[b].half_open(service_of(a), seconds)

    def latency(self, a: str, b: str, delay_seconds: float, seconds: float) -> None:
        """Everything takes longer."""
        self._proxies[b].delay(service_of(a), delay_seconds, seconds)

    def slow_reader(self, party: str, seconds: float) -> None:
        """Everything takes a second longer, whatever the server."""
        for proxy in self._proxies.values():
            proxy.delay(service_of(party), SLOW_READER_SECONDS, seconds)


def service_of(process: str) -> str:
    """``launcher`` of ``launcher-0``."""
    return process.rpartition("-")[0]
