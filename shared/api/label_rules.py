"""The label keys that users may set in labels and requirements of machines (P-15, P-17, NP-17), and known values.

Kubernetes, Karpenter and AWS reserve some keys; v1 reserves fewer than v1alpha5. The functions return the error
message, or "" for an allowed key. They expect current names of legacy keys (``labels.normalise``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.api.core.label_syntax import cel_is_qualified_name, is_qualified_name
from shared.api.faults import Fault, Path
from shared.domain import labels as keys

_V1ALPHA5_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws")
_V1ALPHA5_EXCEPTIONS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
_V1_DOMAINS = ("karpenter.sh", "karpenter.k8s.aws")
_OURS = frozenset(
    {keys.PROVISIONER_NAME, keys.NODE_POOL, keys.NODE_CLASS, keys.HOSTNAME}
    | {keys.REGISTERED, keys.INITIALIZED, "karpenter.sh/emptiness-timestamp"}
)
"""Set by the autoscaler or the kubelet on each machine; two of them identify the pool that owns it (MAP-01)."""
_FREE = keys.WELL_KNOWN - _OURS


def reserved_v1alpha5(key: str) -> str:
    """P-15, P-17: why a Provisioner must not use ``key``, or ""."""
    fault = _always(key)
    if fault or key in _FREE or _within(key, _V1ALPHA5_EXCEPTIONS):
        return fault
    return _in_domain(key, _V1ALPHA5_DOMAINS)


def reserved_v1(key: str) -> str:
    """NP-17: why a NodePool must not use ``key``, or "". v1 allows the domains of Kubernetes."""
    fault = _always(key)
    return fault if fault or key in _FREE else _in_domain(key, _V1_DOMAINS)


def cel_free_v1(key: str) -> str:
    """NP-17 for the API server: a CEL condition on the variable ``key``."""
    return _cel_free(key, _V1_DOMAINS)


def cel_free_v1alpha5(key: str) -> str:
    """P-17 for the API server: a CEL condition on the variable ``key``."""
    return _cel_free(key, _V1ALPHA5_DOMAINS)


def cel_allowed_v1(key: str) -> str:
    """NP-17 with subdomains and the form of the key. Only where the cost has a bound: for keys of requirements, whose
    length is bounded, and in admission policies, whose cost is not estimated beforehand."""
    return _cel_allowed(key, _V1_DOMAINS, ())


def cel_allowed_v1alpha5(key: str) -> str:
    """P-15, P-17 with subdomains, old names and the form of the key; where ``cel_allowed_v1`` may be used."""
    return _cel_allowed(key, _V1ALPHA5_DOMAINS, _V1ALPHA5_EXCEPTIONS)


def _cel_allowed(key: str, domains: tuple[str, ...], exceptions: tuple[str, ...]) -> str:
    free = [*sorted(_FREE), *(old for old in keys.ALIASES if keys.normalise(old) in _FREE)]
    listed = ", ".join(f"'{name}'" for name in free if _within(name, domains))
    outside = f"!{key}.matches('{_domain_pattern(domains)}')"
    excepted = f" || {key}.matches('{_domain_pattern(exceptions)}')" if exceptions else ""
    return (
        f"({cel_is_qualified_name(key)} && {key} != '{keys.HOSTNAME}' && "
        f"({outside}{excepted} || {key} in [{listed}]))"
    )


def _domain_pattern(domains: tuple[str, ...]) -> str:
    """Matches the keys in these domains and their subdomains."""
    return f"^([^/]+[.])?({'|'.join(domains).replace('.', '[.]')})/"


def _cel_free(key: str, domains: tuple[str, ...]) -> str:
    """Whether ``key`` is in none of the domains, or well known and free.

    Only ``reserved_v1`` and ``reserved_v1alpha5`` check subdomains: a CEL search takes time in proportion to the
    key's length, for which the server has no bound for keys of a map, so that the whole rule could exceed its cost
    limit.
    """
    kept = " || ".join(f"{key}.startsWith('{domain}/')" for domain in domains)
    free = ", ".join(f"'{name}'" for name in sorted(_FREE) if name.rpartition("/")[0] in domains)
    return f"({key} != '{keys.HOSTNAME}' && (!({kept}) || {key} in [{free}]))"


KEPT_SUBDOMAIN_PATTERN = r"^[^/]+[.]karpenter[.](sh|k8s[.]aws)/"
"""Keys such as ``x.karpenter.sh/y``; used in CEL and in Python."""


def in_kept_subdomain(key: str) -> str:
    """NC-01, NO-01: why a machine or an overlay must not use ``key``, or ""; keys of the domains themselves are
    allowed."""
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
    """Whether ``key`` is in one of the domains or their subdomains; a key without a slash has no domain."""
    domain = key.rpartition("/")[0]
    return any(domain == one or domain.endswith("." + one) for one in domains)


KNOWN_VALUES: Mapping[str, tuple[str, ...]] = {
    keys.CAPACITY_TYPE: (keys.ON_DEMAND, keys.SPOT, keys.RESERVED),
    keys.ARCH: ("amd64", "arm64"),
    keys.OS: ("linux", "windows"),
    keys.AWS_PREFIX + "instance-tenancy": ("default", "dedicated"),
}
"""NP-18: label -> all values that offerings have."""


def value_warnings(raw: Mapping[str, Any], labels: Path, requirements: Path) -> list[Fault]:
    """Warnings about values that no offering has. The pool works without them; most are typing errors.

    ``labels`` and ``requirements``: where the pool has them.
    """
    return [
        Fault(
            path,
            f"{value[:40]!r} is none of {', '.join(KNOWN_VALUES[key])}; it matches no instance type",
        )
        for path, key, values in _listed(raw, labels, requirements)
        for value in values
        if isinstance(value, str) and value not in KNOWN_VALUES[key]
    ]


def _listed(
    raw: Mapping[str, Any], labels: Path, requirements: Path
) -> Iterator[tuple[Path, str, list[Any]]]:
    """(path, label, values) of the labels and requirements whose values are known."""
    written = _at(raw, labels)
    for key, value in written.items() if isinstance(written, Mapping) else ():
        if keys.normalise(key) in KNOWN_VALUES:
            yield (*labels, key), keys.normalise(key), [value]
    listed = _at(raw, requirements)
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        requirement = entry if isinstance(entry, Mapping) else {}
        name, values = requirement.get("key"), requirement.get("values")
        key = keys.normalise(name) if isinstance(name, str) else ""
        if key in KNOWN_VALUES and isinstance(values, list):
            yield (*requirements, index, "values"), key, values


def _at(raw: Any, path: Path) -> Any:
    for name in path:
        raw = raw.get(name) if isinstance(raw, Mapping) else None
    return raw
