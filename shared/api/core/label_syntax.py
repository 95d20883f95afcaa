"""Kubernetes' syntax of label keys and values (apimachinery ``validation.IsQualifiedName``, ``IsValidLabelValue``).

Values are written into the user data of a node, so this check also prevents shell injection.
"""

from __future__ import annotations

import re

_QUALIFIED_NAME = re.compile(
    r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LABEL_VALUE_PATTERN = f"^{_LABEL_VALUE.pattern}$"
LONGEST_LABEL_VALUE = 63
LABEL_VALUE_FORM = "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
"""What a message about an invalid label value ends with."""


def cel_is_qualified_name(text: str) -> str:
    """``is_qualified_name`` as a CEL condition; ``text`` needs a bound on its length in the schema."""
    return f"{text}.matches('^{_QUALIFIED_NAME.pattern}$')"


def cel_is_label_value(text: str) -> str:
    """``is_label_value`` as a CEL condition."""
    return f"{text}.matches('{LABEL_VALUE_PATTERN}')"


def is_qualified_name(text: str) -> bool:
    """Whether ``text`` has the form ``name`` or ``example.com/name``."""
    return _QUALIFIED_NAME.fullmatch(text) is not None


def is_label_value(text: str) -> bool:
    """Whether ``text`` is empty, or up to 63 letters, digits, ``-``, ``_`` and ``.`` between letters or digits."""
    return _LABEL_VALUE.fullmatch(text) is not None
