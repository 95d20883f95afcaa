"""Which label keys a user may put on machines, in labels and in requirements (P-15, P-17, NP-17).

Kubernetes, Karpenter and AWS keep some keys to themselves; v1 keeps fewer than v1alpha5. Both functions return what to
tell the user, or "" when the key may be used. Keys are expected in today's spelling (``labels.normalise``).
"""

from __future__ import annotations

import re

from shared.api.core.label_syntax import is_qualified_name
from shared.domain import labels as keys

_V1ALPHA5_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws")
_V1ALPHA5_EXCEPTIONS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
_V1_DOMAINS = ("karpenter.sh", "karpenter.k8s.aws")
_OURS = frozenset(
    {keys.PROVISIONER_NAME, keys.NODE_POOL, keys.NODE_CLASS, keys.HOSTNAME}
    | {keys.REGISTERED, keys.INITIALIZED, "karpenter.sh/emptiness-timestamp"}
)
"""Written by the autoscaler or the kubelet on each machine: MAP-01 reads from two of them who owns it."""
_FREE = keys.WELL_KNOWN - _OURS


def reserved_v1alpha5(key: str) -> str:
    """P-15, P-17: why a Provisioner may not use ``key``."""
    fault = _always(key)
    if fault or key in _FREE or _within(key, _V1ALPHA5_EXCEPTIONS):
        return fault
    return _in_domain(key, _V1ALPHA5_DOMAINS)


def reserved_v1(key: str) -> str:
    """NP-17: why a NodePool may not use ``key``. The domains of Kubernetes are free in v1."""
    fault = _always(key)
    return fault if fault or key in _FREE else _in_domain(key, _V1_DOMAINS)


def cel_free_v1(key: str) -> str:
    """NP-17 for the API server: a CEL condition on the variable ``key``.

    Subdomains are left to ``reserved_v1``: looking for them takes time in proportion to the key's length, which the
    server cannot bound for keys of a map, so that it might refuse the whole rule.
    """
    kept = " || ".join(f"{key}.startsWith('{domain}/')" for domain in _V1_DOMAINS)
    free = ", ".join(f"'{name}'" for name in sorted(_FREE) if _within(name, _V1_DOMAINS))
    return f"({key} != '{keys.HOSTNAME}' && (!({kept}) || {key} in [{free}]))"


KEPT_SUBDOMAIN_PATTERN = r"^[^/]+[.]karpenter[.](sh|k8s[.]aws)/"
"""Keys such as ``x.karpenter.sh/y``, for CEL and for us."""


def in_kept_subdomain(key: str) -> str:
    """NC-01, NO-01: why a machine or an overlay may not use ``key``; keys of the domains themselves are ours."""
    if re.match(KEPT_SUBDOMAIN_PATTERN, key):
        return f"{key[:80]} is in a restricted domain; use your own domain"
    return ""


def _always(key: str) -> str:
    if not is_qualified_name(key):
        return f"{key[:80]!r} is not a qualified name such as example.com/team"
    if key in _OURS:
        return f"{key} is set by the autoscaler and may not be used here"
    return ""


def _in_domain(key: str, domains: tuple[str, ...]) -> str:
    if _within(key, domains):
        return f"{key} is in a restricted domain; use your own domain"
    return ""


def _within(key: str, domains: tuple[str, ...]) -> bool:
    """A name without a slash has no domain."""
    domain = key.rpartition("/")[0]
    return any(domain == one or domain.endswith("." + one) for one in domains)
