"""The operator's tags for all resources that Dovetail creates in AWS, as a JSON object (OPS-04 ``aws.tags``)."""

from __future__ import annotations

import json

MOST_TAGS = 40
"""AWS's limit is 50 per resource; the rest is for our own tags and those of the node class."""
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
"""The ownership tags of machines of both generations (T-11, EC-09)."""


def parse_tags(text: str) -> dict[str, str]:
    """The tags; {} for empty text. Raises ValueError with the first five faults."""
    if not text.strip():
        return {}
    try:
        tags = json.loads(text)
    except (ValueError, RecursionError):
        tags = None
    if not isinstance(tags, dict):
        raise ValueError('must be a JSON object of strings such as {"team": "web"}')
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
