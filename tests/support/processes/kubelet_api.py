"""The calls of a kubelet to the API server."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError

from local.probe import exchange_json
from tests.support.processes.containers import Find, Json

CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


@dataclass(frozen=True)
class KubeletApi:
    """An API server that takes everybody without a token for its administrator."""

    url: str

    def list(self, plural: str) -> list[Json]:
        found: list[Json] = exchange_json(f"{self.url}/api/v1/{plural}", limit=1 << 28)["items"]
        return found

    def create(self, plural: str, body: Json) -> None:
        exchange_json(f"{self.url}/api/v1/{plural}", body)

    def finder(self, namespace: str) -> Find:
        def find(plural: str, name: str) -> Json:
            try:
                found: Json = exchange_json(
                    f"{self.url}/api/v1/namespaces/{namespace}/{plural}/{name}"
                )
            except HTTPError as error:
                raise LookupError(f"{plural} {name}: {error}") from error
            return found

        return find

    def token(self, namespace: str, account: str) -> str:
        path = f"namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"spec": {"expirationSeconds": 86_400}}
        return str(exchange_json(f"{self.url}/api/v1/{path}", asked)["status"]["token"])

    def delete_at_once(self, pod: Json) -> None:
        exchange_json(_place(self.url, pod) + "?gracePeriodSeconds=0", method="DELETE")

    def waiting(self, pod: Json, why: str) -> None:
        state = {"waiting": {"reason": "CreateContainerConfigError", "message": why}}
        self._status(pod, "Pending", "", state, ready=False, restarts=0)

    def running(self, pod: Json, address: str, *, ready: bool, restarts: int) -> None:
        self._status(pod, "Running", address, {"running": {}}, ready=ready, restarts=restarts)

    def _status(
        self, pod: Json, phase: str, address: str, state: Json, *, ready: bool, restarts: int
    ) -> None:
        states = dict.fromkeys(CONDITIONS, "True")
        if not ready:
            states |= {"ContainersReady": "False", "Ready": "False"}
        containers = [
            {
                "name": one["name"], "image": one["image"], "imageID": "", "ready": ready, "started": True,
                "restartCount": restarts, "state": state, "lastState": {},
            }
            for one in pod["spec"]["containers"]
        ]  # fmt: skip
        conditions = [
            *({"type": name, "status": status} for name, status in states.items()),
            {"type": "PodScheduled", "status": "True"},
        ]
        status: dict[str, Any] = {
            "phase": phase, "conditions": conditions, "containerStatuses": containers
        }  # fmt: skip
        if address:
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
        self._patch(f"{_place(self.url, pod)}/status", {"status": status})

    @staticmethod
    def _patch(url: str, body: Json) -> None:
        request = urllib.request.Request(url, json.dumps(body).encode(), method="PATCH")
        request.add_header("Content-Type", "application/merge-patch+json")
        with urllib.request.urlopen(request, timeout=30):
            return

    @staticmethod
    def answers(url: str) -> bool:
        """Whether a GET succeeds within five seconds."""
        try:
            with urllib.request.urlopen(url, timeout=5):
                return True
        except OSError:
            return False


def _place(url: str, pod: Json) -> str:
    return f"{url}/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
