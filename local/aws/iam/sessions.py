"""Sessions of roles: whose temporary credentials sign a call, and what the role's policies allow.

Roles, policies and attachments are moto's: what CloudFormation, Terraform or `aws iam` made.
"""

from __future__ import annotations

from typing import Any

from moto.sts.models import sts_backends

from local.aws.iam.policies import Statement, statements_of
from local.aws.moto.state import ACCOUNT_ID, iam


def session_of(key: str) -> Any | None:
    """moto's session to which this access key id belongs; None for any other key."""
    return sts_backends[ACCOUNT_ID]["aws"].get_assumed_role_from_access_key(key)


def statements_of_role(arn: str) -> tuple[Statement, ...]:
    """The statements of all attached and inline policies; none for a role that does not exist."""
    role = next((one for one in [*iam().roles.values()] if one.arn == arn), None)
    if role is None:
        return ()
    attached = [_document(policy) for policy in role.managed_policies.values()]
    return tuple(
        one for text in (*attached, *role.policies.values()) for one in statements_of(text)
    )


def _document(policy: Any) -> str:
    versions = {one.version_id: one.document for one in policy.versions}
    return str(versions[policy.default_version_id])
