"""The command lines of a real control plane on loopback: etcd, API server, controller manager, scheduler.

Only what makes it fit one machine differs from the defaults: no fsync, no leader election, no endpoints of itself, one
node monitor grace of an hour (the local kubelets post no heartbeat), and a controller manager as fast as that of a
managed control plane.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.real_cluster.binaries import program

HOST = "127.0.0.1"
ISSUER = "https://kubernetes.default.svc.cluster.local"
USERS = {
    "administrator": ("system:masters",),
    "system:kube-controller-manager": (),
    "system:kube-scheduler": (),
    "local-kubelets": ("system:masters",),
}
NOMINATIONS = "NominatedNodeNameForExpectation=true,ClearingNominatedNodeNameAfterBinding=true"
"""On by default from 1.35; before, kube-scheduler does not heed nominations of others."""
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


@dataclass(frozen=True)
class Ports:
    """One for each listener."""

    etcd: int
    etcd_peers: int
    api: int
    controllers: int
    scheduler: int


@dataclass(frozen=True)
class Files:
    """What the programs read and write, all under one folder."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The API server's own certificate with the authority that signed it; it makes both."""
        return self.directory / "apiserver" / "apiserver.crt"

    @property
    def audit(self) -> Path:
        return self.directory / "audit.log"

    def of(self, name: str) -> str:
        return str(self.directory / name)


def write_inputs(files: Files, tokens: dict[str, str]) -> None:
    """The audit policy, the users' tokens, and the key pair of ServiceAccount tokens."""
    Path(files.of("audit-policy.json")).write_text(json.dumps(AUDIT))
    with Path(files.of("tokens.csv")).open("w", newline="") as target:
        rows = csv.writer(target)
        for user, groups in USERS.items():
            rows.writerow([tokens[user], user, user, ",".join(groups)])
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    Path(files.of("accounts.key")).write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    Path(files.of("accounts.pub")).write_bytes(public)


def etcd(files: Files, ports: Ports) -> list[str]:
    client, peers = f"http://{HOST}:{ports.etcd}", f"http://{HOST}:{ports.etcd_peers}"
    return [
        program("etcd"),
        f"--data-dir={files.of('etcd')}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync=true",
    ]


def api_server(files: Files, ports: Ports) -> list[str]:
    return [
        program("kube-apiserver"),
        f"--etcd-servers=http://{HOST}:{ports.etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={ports.api}",
        f"--cert-dir={files.authority.parent}",
        "--endpoint-reconciler-type=none",
        "--authorization-mode=RBAC",
        f"--token-auth-file={files.of('tokens.csv')}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={files.of('accounts.pub')}",
        f"--service-account-signing-key-file={files.of('accounts.key')}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        f"--audit-policy-file={files.of('audit-policy.json')}",
        f"--audit-log-path={files.audit}",
        f"--feature-gates={NOMINATIONS}",
    ]


def controller_manager(files: Files, ports: Ports) -> list[str]:
    return [
        program("kube-controller-manager"),
        f"--kubeconfig={files.of('system:kube-controller-manager')}",
        f"--bind-address={HOST}",
        f"--secure-port={ports.controllers}",
        f"--cert-dir={files.of('controllers')}",
        f"--service-account-private-key-file={files.of('accounts.key')}",
        f"--root-ca-file={files.authority}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--node-monitor-grace-period=1h",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(files: Files, ports: Ports) -> list[str]:
    return [
        program("kube-scheduler"),
        f"--kubeconfig={files.of('system:kube-scheduler')}",
        f"--bind-address={HOST}",
        f"--secure-port={ports.scheduler}",
        f"--cert-dir={files.of('scheduler')}",
        "--leader-elect=false",
        f"--feature-gates={NOMINATIONS}",
    ]
