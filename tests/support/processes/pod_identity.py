"""The agent of EKS Pod Identity: a pod gets credentials of the role with which its ServiceAccount is associated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import botocore.session

AGENT = "pods.eks.amazonaws.com"
ACTIONS = {"sts:AssumeRole", "sts:TagSession"}


@dataclass(frozen=True)
class PodIdentity:
    """For one cluster of the emulator at ``endpoint``."""

    endpoint: str
    region: str
    cluster: str

    def variables(self, namespace: str, account: str | None) -> dict[str, str]:
        """The endpoint, and credentials if there is an association whose role trusts the agent."""
        endpoint = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_DEFAULT_REGION": self.region}
        role = self._role(namespace, account) if account else None
        if role is None:
            return endpoint
        self._check(role)
        taken = self._client("sts").assume_role(RoleArn=role, RoleSessionName=account)[
            "Credentials"
        ]
        return {
            **endpoint,
            "AWS_ACCESS_KEY_ID": taken["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": taken["SecretAccessKey"],
            "AWS_SESSION_TOKEN": taken["SessionToken"],
        }

    def _role(self, namespace: str, account: str) -> str | None:
        eks, cluster = self._client("eks"), {"clusterName": self.cluster}
        pod = {"namespace": namespace, "serviceAccount": account}
        found = eks.list_pod_identity_associations(**cluster, **pod)["associations"]
        if not found:
            return None
        named = {**cluster, "associationId": found[0]["associationId"]}
        return str(eks.describe_pod_identity_association(**named)["association"]["roleArn"])

    def _check(self, role: str) -> None:
        """Raises LookupError for a role that the agent may not assume."""
        name = role.rpartition("/")[2]
        document = self._client("iam").get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        for one in document["Statement"]:
            if one["Principal"].get("Service") == AGENT and {*one["Action"]} >= ACTIONS:
                return
        raise LookupError(f"role {name} does not trust {AGENT}")

    def _client(self, service: str) -> Any:
        return botocore.session.get_session().create_client(
            service, region_name=self.region, endpoint_url=self.endpoint,
            aws_access_key_id="local", aws_secret_access_key="local",
        )  # fmt: skip
