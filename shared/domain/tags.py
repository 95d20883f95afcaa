"""Tags that an operator puts on everything Dovetail makes in AWS, written as a JSON object (OPS-04 ``aws.tags``)."""

from __future__ import annotations

import json

MOST_TAGS = 40
"""AWS takes 50 for one resource; ours and those of the node class need room."""
LONGEST_KEY = 128
LONGEST_VALUE = 256
_RESERVED = (
    "aws:",
    "eks:eks-cluster-name",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.sh/managed-by",
    "karpenter.sh/nodeclaim",
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "kubernetes.io/cluster/",
)
"""T-11 and EC-09 together: these tags go on machines of either generation, and say whose they are."""


def parse_tags(text: str) -> dict[str, str]:
    """Tags by key; none for empty text. Raises ValueError that names everything wrong."""
    if not text.strip():
        return {}
    try:
        tags = json.loads(text)
    except (ValueError, RecursionError):
        tags = None
    if not isinstance(tags, dict):
        raise ValueError('must be a JSON object of texts such as {"team": "web"}')
    wrong = [fault for key, value in tags.items() if (fault := _fault(key, value))]
    if len(tags) > MOST_TAGS:
        wrong.insert(0, f"has more than {MOST_TAGS} tags")
    if wrong:
        raise ValueError("; ".join(wrong[:5]))
    return tags


def _fault(key: str, value: object) -> str:
    if not key:
        return "a tag needs a key"
    shown = repr(key[:40])
    if len(key) > LONGEST_KEY:
        return f"the key {shown}… has more than {LONGEST_KEY} characters"
    if key.startswith(_RESERVED):
        return f"the tag {shown} is set by the autoscaler or AWS; choose another key"
    if not isinstance(value, str):
        return f"the value of {shown} must be a string; put it in quotes"
    if len(value) > LONGEST_VALUE:
        return f"the value of {shown} has more than {LONGEST_VALUE} characters"
    return ""
