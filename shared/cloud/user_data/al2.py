"""Amazon Linux 2 and Ubuntu: a shell part that calls EKS's bootstrap.sh (LCH-30, LCH-31).

What may go wrong: bootstrap.sh writes the kubelet's arguments into a systemd unit inside single quotes, so quoting
cannot protect a value that contains one. ``checking`` refuses such values.
"""

from __future__ import annotations

import shlex

from shared.cloud.user_data import kubelet_flags, mime
from shared.cloud.user_data.bootstrap import Bootstrap

_LOG = "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1"


def render(bootstrap: Bootstrap) -> str:
    """The user data as a MIME document (LCH-30). Raises InvalidObject."""
    words = " ".join(shlex.quote(word) for word in _command(bootstrap))
    script = f"#!/bin/bash -xe\n{_LOG}\n{words}\n"
    return mime.document(bootstrap.user_data, mime.shell_part(script))


def _command(bootstrap: Bootstrap) -> list[str]:
    words = ["/etc/eks/bootstrap.sh", bootstrap.cluster_name]
    words += ["--apiserver-endpoint", bootstrap.endpoint, "--b64-cluster-ca", bootstrap.ca_bundle]
    if bootstrap.dns_addresses:
        words += ["--dns-cluster-ip", bootstrap.dns_addresses[0]]
    if bootstrap.is_ipv6:
        words += ["--ip-family", "ipv6"]
    if bootstrap.kubelet.get("containerRuntime"):
        words += ["--container-runtime", str(bootstrap.kubelet["containerRuntime"])]
    words += ["--use-max-pods", "false"]
    if bootstrap.raid0_instance_store:
        words += ["--local-disks", "raid0"]
    arguments = kubelet_flags.text(bootstrap)
    return [*words, "--kubelet-extra-args", arguments] if arguments else words
