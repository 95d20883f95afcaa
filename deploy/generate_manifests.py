"""Writes all that is made of deploy/chart: ``make manifests``. Needs Helm for the plain manifests.

A folder as argument takes the place of the repository. ``deploy/manifests.sha256`` has the digests of what was read and
written, so that a machine without Helm can tell whether they belong together.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.rendering import admission, components, helm
from deploy.rendering.reference import with_reference
from deploy.rendering.settings_schema import values_schema
from shared.errors import ConfigurationError

REPOSITORY = Path(__file__).resolve().parents[1]
MARK = "by make manifests: do not edit."
HEADER = f"# Generated from deploy/chart {MARK}\n"
SUMS = "deploy/manifests.sha256"
PAGE = "docs/operating/helm.md"
VALUES = "deploy/rendering/values.yaml"
CHARTS = ("deploy/chart", "deploy/chart-crds")
OBSERVABILITY = {"dashboards": "*.json", "rules": "*.yaml"}
"""Folders of deploy/observability that the chart includes."""
KUSTOMIZATION = """# All objects for your own cluster: kubectl apply -k deploy
# The passwords are not included: dovetail secrets --cluster-name NAME | kubectl apply -f -
# docs/operating/containers.md shows an overlay with your image and your settings.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
"""
REDIS_TLS = """# Redis accepts only TLS. Add this folder under `components:` beside `resources: [dovetail/deploy]`.
# Needed: the Secret dovetail-redis-tls with tls.crt, tls.key and ca.crt (cert-manager writes one), for the name
# dovetail-redis.dovetail.svc; and addresses with rediss://: dovetail secrets --cluster-name NAME --tls
# The agents have a namespace of their own: they need a copy of that Secret there.
"""
KARPENTER = """# Dovetail in a cluster with Karpenter: only the one that holds Karpenter's Lease acts
# (docs/migration/karpenter.md).
# Add this folder under `components:` beside `resources: [dovetail/deploy]`. If Karpenter is in another namespace than
# kube-system, change it here and in rights.yaml.
"""
SHADOW = """# A second scheduler that decides and records, and acts on nothing (docs/operating/shadow.md).
# Add this folder under `components:` beside `resources: [dovetail/deploy]`, and set what it is to try.
"""
VARIANTS = {"redis-tls": (REDIS_TLS, "redis.tls.enabled=true")}
POLICIES = """# Admission policies, for Kubernetes 1.30 or newer (docs/operating/admission.md).
# kubectl apply -k deploy/kubernetes/admission; or add this folder under `resources:` beside dovetail/deploy.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - policies.yaml
"""
ADMISSION = "deploy/chart/files/admission/policies.yaml"
LEASE = "karpenter.lease=kube-system/karpenter-leader-election"


def chart_files() -> Iterator[tuple[str, str]]:
    """(path below the repository, content) of generated files of the chart and its page; Helm is not needed."""
    version = tomllib.loads(_text("pyproject.toml"))["project"]["version"]
    for chart in CHARTS:
        old = _text(f"{chart}/Chart.yaml")
        pattern = r"(?m)^(version|appVersion): .*$"
        yield f"{chart}/Chart.yaml", re.sub(pattern, rf"\1: {version}", old)
    schema = values_schema(_text("deploy/chart/values.schema.yaml"))
    comment = {"$comment": f"Generated from values.schema.yaml and shared/settings {MARK}"}
    yield "deploy/chart/values.schema.json", _json({**comment, **schema})
    values = yaml.safe_load(_text("deploy/chart/values.yaml"))
    yield PAGE, with_reference(_text(PAGE), schema, values)
    yield from _observability()
    listed = yaml.safe_dump(admission.policies(), sort_keys=False, width=1000)
    yield ADMISSION, f"# Generated from deploy/rendering/admission.py {MARK}\n" + listed


def _observability() -> Iterator[tuple[str, str]]:
    """Dashboards and rules: Helm reads only files of the chart's own folder."""
    for folder, pattern in OBSERVABILITY.items():
        for path in sorted((REPOSITORY / "deploy" / "observability" / folder).glob(pattern)):
            said = f"Generated from deploy/observability/{folder} {MARK}"
            text = path.read_text(encoding="utf-8")
            marked = (
                _json({"__comment": said, **json.loads(text)})
                if path.suffix == ".json"
                else f"# {said}\n{text}"
            )
            yield f"deploy/chart/files/{folder}/{path.name}", marked


def _json(document: Mapping[str, Any]) -> str:
    """With the first key, which says that the file is generated, in the first line."""
    text = json.dumps(document, indent=1, ensure_ascii=False)
    return "{" + text.removeprefix("{\n ") + "\n"


def _text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def manifests(chart: Path) -> Iterator[tuple[str, str]]:
    """(path below the repository, content) of what Helm makes of ``chart``. Raises ConfigurationError."""
    base = _render(chart)
    files = helm.files_of(base)
    for name, text in sorted(files.items()):
        yield f"deploy/kubernetes/{name}", HEADER + text
    kinds = [f"crds/{path.name}" for path in sorted((REPOSITORY / "deploy" / "crds").iterdir())]
    first = sorted(name for name in helm.FILES.values())
    names = [*first, "redis.yaml", *sorted(files.keys() - {*first, "redis.yaml"})]
    listed = [*kinds, *(f"kubernetes/{name}" for name in names)]
    yield (
        "deploy/kustomization.yaml",
        HEADER + KUSTOMIZATION + "".join(f"  - {one}\n" for one in listed),
    )
    for folder, (head, option) in VARIANTS.items():
        changes = components.patches(_objects(base), _objects(_render(chart, option)))
        yield (
            f"deploy/{folder}/kustomization.yaml",
            components.component(HEADER + head, [], changes),
        )
    yield from _beside_karpenter(base, _render(chart, LEASE))
    yield from _shadow(base, _render(chart, "shadow.enabled=true"))
    rules = helm.files_of(_render(chart, "admissionPolicies.enabled=true"))["admission.yaml"]
    yield "deploy/kubernetes/admission/policies.yaml", HEADER + rules
    yield "deploy/kubernetes/admission/kustomization.yaml", HEADER + POLICIES


def _shadow(base: str, variant: str) -> Iterator[tuple[str, str]]:
    folder, own = "deploy/shadow", helm.files_of(variant)["shadow.yaml"]
    changes = components.patches(_objects(base), _objects(variant))
    yield f"{folder}/shadow.yaml", HEADER + own
    text = components.component(HEADER + SHADOW, ["shadow.yaml"], changes)
    yield f"{folder}/kustomization.yaml", text


def _beside_karpenter(base: str, variant: str) -> Iterator[tuple[str, str]]:
    """The agents are left alone: on nodes without a pool they have nothing to do with Karpenter."""
    rights = helm.files_of(variant)["karpenter-lease.yaml"]
    changes = components.patches(_objects(base), _objects(variant))
    folder = "deploy/beside-karpenter"
    yield f"{folder}/rights.yaml", HEADER + rights
    text = components.component(HEADER + KARPENTER, ["rights.yaml"], changes)
    yield f"{folder}/kustomization.yaml", text


def _render(chart: Path, *options: str) -> str:
    words = [word for option in options for word in ("--set", option)]
    return helm.template(chart, *words, values=[REPOSITORY / VALUES])


def _objects(rendered: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(rendered) if one]


def generated() -> dict[str, str]:
    """Every generated file by its path below the repository. Raises ConfigurationError without Helm."""
    files = dict(chart_files())
    with tempfile.TemporaryDirectory() as folder:
        chart = Path(folder) / "dovetail"
        shutil.copytree(REPOSITORY / "deploy" / "chart", chart)
        shutil.rmtree(chart / "files", ignore_errors=True)
        _write(Path(folder) / "root", files)
        shutil.copytree(Path(folder) / "root" / "deploy" / "chart", chart, dirs_exist_ok=True)
        files |= dict(manifests(chart))
    return files | {SUMS: sums(files)}


def sums(files: Mapping[str, str]) -> str:
    """Digests of ``files`` and of what they are made of, as sha256sum reads them."""
    found = {name: _text(name) for name in sources()} | dict(files)
    found.pop(PAGE, None)  # people write the most of it, and its table needs no Helm to be checked
    lines = (f"{_digest(text)}  {name}\n" for name, text in sorted(found.items()))
    return f"# Generated {MARK}\n" + "".join(lines)


def sources() -> list[str]:
    """The files that the plain manifests are made of, below the repository."""
    templates = (path for path in (REPOSITORY / "deploy/chart").rglob("*") if path.is_file())
    code = (REPOSITORY / "deploy/rendering").glob("*.py")
    found = [*templates, *code, REPOSITORY / VALUES, Path(__file__).resolve()]
    return sorted(path.relative_to(REPOSITORY).as_posix() for path in found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")


def main(root: Path) -> None:
    """Write every file below ``root``; files of a folder that is generated alone are replaced."""
    files = generated()
    for folder in ("deploy/kubernetes", "deploy/chart/files"):
        shutil.rmtree(root / folder, ignore_errors=True)
    _write(root, files)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY)
    except ConfigurationError as error:
        raise SystemExit(f"make manifests: {error}") from error
