"""Where the programs of a real control plane are: the folder that ``KUBEBUILDER_ASSETS`` names, as controller-runtime's
envtest has it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "KUBEBUILDER_ASSETS"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
HOW = (
    f"set {VARIABLE} to a folder with {', '.join(PROGRAMS)}: `setup-envtest use -p path` of controller-runtime gets "
    "etcd and kube-apiserver, and the Kubernetes release of the same version has the other two"
)


def missing(environment: Mapping[str, str] = os.environ) -> str:
    """Why no control plane can be started here, in words; empty when it can."""
    folder = environment.get(VARIABLE)
    if not folder:
        return f"no real control plane here: {HOW}"
    absent = [name for name in PROGRAMS if not os.access(Path(folder) / name, os.X_OK)]
    if absent:
        return f"{VARIABLE}: {folder} has no {', '.join(absent)}; {HOW}"
    return "" if shutil.which("kubectl") else "kubectl is not on PATH; install it"


def program(name: str) -> str:
    """The path of one of ``PROGRAMS``."""
    return str(Path(os.environ[VARIABLE]) / name)
