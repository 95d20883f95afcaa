"""Kubernetes' syntax of label keys and values (apimachinery ``validation.IsQualifiedName``, ``IsValidLabelValue``).

Values end up in the boot script of a node, so this check also keeps a shell from reading them.
"""

from __future__ import annotations

import re

_QUALIFIED_NAME = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def is_qualified_name(text: str) -> bool:
    """``name`` or ``example.com/name``."""
    return _QUALIFIED_NAME.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """At most 63 letters, digits, ``-``, ``_`` and ``.``, or nothing at all."""
    return _LABEL_VALUE.fullmatch(text) is not None
