"""The kubelet of an account's own nodes on the embedded cluster: pods of a release run their commands for real.

Such a pod is a process of this machine with an address of its own (127.x.y.z), the variables of its ConfigMap and
Secret, a token of its ServiceAccount, and the credentials of its EKS Pod Identity association. Probes decide whether it
is ready, a process that ends is started again, and a deleted pod has its grace period. All other pods of these nodes
just run: nothing is in them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from local.cluster.kubeconfig import write_kubeconfig
from local.cluster.kubelet.node_objects import fixed_node
from local.stack_plan import clean_environment
from shared.concurrency.clock import rfc3339
from tests.support.processes.containers import Json, Program, program
from tests.support.processes.kubelet_api import KubeletApi
from tests.support.processes.pod_identity import PodIdentity

NODES = 2
LOOK_SECONDS = 0.3
OURS = {"app.kubernetes.io/name": "dovetail"}


@dataclass
class RunningPod:
    """A pod, and its process if it is one of a release."""

    address: str
    process: subprocess.Popen[bytes] | None = None
    program: Program | None = None
    log: Path = Path(os.devnull)
    ordered_to_stop: float | None = None
    """Monotonic time of SIGTERM."""
    ready: bool | None = None
    restarts: int = 0

    def start(self) -> None:
        assert self.program is not None
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.program.command, env=self.program.environment, stdout=out, stderr=out,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def stopped(self, grace: float) -> bool:
        """Whether it has ended; the first call orders it to, and after ``grace`` seconds it is killed."""
        if self.process is None or self.process.poll() is not None:
            return True
        if self.ordered_to_stop is None:
            self.ordered_to_stop = time.monotonic()
            self.process.terminate()
        elif time.monotonic() - self.ordered_to_stop > grace:
            self.process.kill()
        return False


@dataclass
class Kubelet:
    """Runs in a thread of its own from ``start`` to ``stop``."""

    api: KubeletApi
    folder: Path
    identity: PodIdentity
    region: str
    pods: dict[str, RunningPod] = field(default_factory=dict)
    """By UID."""
    ended: list[str] = field(default_factory=list)
    """Processes that ended without an order, with the last lines of their logs."""
    _names: set[str] = field(default_factory=set)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        for number in range(NODES):
            now = time.time()
            node = fixed_node(number, self.region, now, rfc3339(now))
            del node["metadata"][
                "annotations"
            ]  # else the cluster's own kubelets would run its pods
            self._names.add(node["metadata"]["name"])
            self.api.create("nodes", node)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        while not all([one.stopped(30) for one in self.pods.values()]):
            time.sleep(LOOK_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            pods = [p for p in self.api.list("pods") if p["spec"].get("nodeName") in self._names]
            for pod in pods:
                # Written or deleted in between: the next look sees it.
                with contextlib.suppress(HTTPError):
                    self._look(pod)
            for gone in self.pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
                if self.pods[gone].stopped(0):
                    del self.pods[gone]

    def _look(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if pod["metadata"].get("deletionTimestamp"):
            running = self.pods.get(uid)
            if running is None or running.stopped(pod["metadata"]["deletionGracePeriodSeconds"]):
                self.api.delete_at_once(pod)
        elif uid in self.pods:
            self._observe(pod, self.pods[uid])
        else:
            self._begin(pod)

    def _begin(self, pod: Json) -> None:
        is_ours = OURS.items() <= pod["metadata"].get("labels", {}).items()
        running = RunningPod(self._free_address(pod) if is_ours else "10.9.9.9")
        if is_ours:
            try:
                running.program = self._program(pod, running.address)
            except LookupError as missing:
                self.api.waiting(pod, str(missing))
                return
            running.log = self.folder / f"{pod['metadata']['name']}.log"
            running.start()
        self.pods[pod["metadata"]["uid"]] = running

    def _free_address(self, pod: Json) -> str:
        """Redis has the one that stands for its Service; it is replaced, never doubled."""
        network = f"127.{os.getpid() >> 8 & 127 | 128}.{os.getpid() & 255}"
        if pod["spec"]["containers"][0]["name"] == "redis":
            return f"{network}.1"
        taken = {one.address for one in self.pods.values()}
        return next(one for n in range(2, 255) if (one := f"{network}.{n}") not in taken)

    def _program(self, pod: Json, address: str) -> Program:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        redis = self._free_address({"spec": {"containers": [{"name": "redis"}]}})
        folder = self.folder / name
        account = pod["spec"].get("serviceAccountName")
        local = dict(self.identity.variables(namespace, account))
        if account:
            kubeconfig = folder / "kubeconfig"
            token = self.api.token(namespace, account)
            write_kubeconfig(kubeconfig, self.api.url, token=token, namespace=namespace)
            local["KUBECONFIG"] = str(kubeconfig)
        found = program(pod, self.api.finder(namespace), folder, address, redis, local)
        return Program(found.command, clean_environment({}) | found.environment)

    def _observe(self, pod: Json, running: RunningPod) -> None:
        if running.process is not None and (code := running.process.poll()) is not None:
            tail = running.log.read_text(errors="replace")[-400:]
            if running.restarts < 2:
                self.ended.append(f"{pod['metadata']['name']} ended with {code}: {tail}")
            running.restarts += 1
            running.start()
        ready = running.process is None or _answers(pod, running.address)
        if ready is not running.ready:
            self.api.running(pod, running.address, ready=ready, restarts=running.restarts)
            running.ready = ready


def _answers(pod: Json, address: str) -> bool:
    """What the readiness probe says."""
    (container,) = pod["spec"]["containers"]
    probe: dict[str, Any] = container["readinessProbe"]
    if "exec" in probe:
        words = [
            word.replace("redis-cli", f"redis-cli -h {address}")
            for word in probe["exec"]["command"]
        ]
        return subprocess.run(words, capture_output=True, timeout=10, check=False).returncode == 0
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    return KubeletApi.answers(
        f"http://{address}:{ports[probe['httpGet']['port']]}{probe['httpGet']['path']}"
    )
