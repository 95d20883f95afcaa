"""Windows: a PowerShell script, the user's lines first, then the call of EKS's Start-EKSBootstrap.ps1 (LCH-34).

PowerShell treats typographic single quotes as single quotes, so they are doubled as well. What may go wrong: the agent
that runs the script ends it at ``</powershell>``, even inside quotes: ``InvalidObject``.
"""

from __future__ import annotations

import re

from shared.cloud.user_data import kubelet_flags
from shared.cloud.user_data.bootstrap import USER_DATA_FIELD, Bootstrap
from shared.errors import InvalidObject

OPEN, CLOSE = "<powershell>", "</powershell>"
SCRIPT = r'"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"'
_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")
_TAG = re.compile("</?powershell", re.IGNORECASE)


def render(bootstrap: Bootstrap) -> str:
    """The user data as a script in the tags that EC2Launch expects (LCH-34). Raises InvalidObject."""
    arguments = {
        "EKSClusterName": bootstrap.cluster_name,
        "APIServerEndpoint": bootstrap.endpoint,
        "Base64ClusterCA": bootstrap.ca_bundle,
        "KubeletExtraArgs": kubelet_flags.text(bootstrap),
        "DNSClusterIP": next(iter(bootstrap.dns_addresses), ""),
    }
    call = [f"-{name} {quoted(value)}" for name, value in arguments.items() if value]
    lines = [
        *_user_lines(bootstrap.user_data),
        f"[string]$EKSBootstrapScriptFile = {SCRIPT}",
        f"& $EKSBootstrapScriptFile {' '.join(call)}",
    ]
    if any(map(_TAG.search, lines)):
        raise InvalidObject(
            f"results in a script that contains the tag {OPEN} or {CLOSE}, which would end it; "
            "write the PowerShell lines alone",
            field=USER_DATA_FIELD,
        )
    return "\n".join([OPEN, *lines, CLOSE])


def quoted(value: str) -> str:
    """``it's`` -> ``'it''s'``: in single quotes PowerShell expands nothing."""
    doubled = _QUOTES.sub(r"\1\1", value)
    return f"'{doubled}'"


def _user_lines(text: str) -> list[str]:
    """The user's script, without its enclosing tags."""
    script = text.strip()
    inner = script[len(OPEN) : -len(CLOSE)]
    if script.lower().startswith(OPEN) and script.lower().endswith(CLOSE):
        script = inner.strip()
    return [script] if script else []
