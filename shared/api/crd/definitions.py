"""CustomResourceDefinitions generated from the models of ``shared.api.schema``.

Pure: ``deploy/generate_crds.py`` writes the files. The output is deterministic, so that a test can compare the files in
``deploy/crds`` with the models.
"""

from __future__ import annotations

from typing import Any

import yaml

from shared.api.crd.structural import Schema, structural_schema
from shared.api.schema.kinds import Column, KindInfo, Resource

Document = dict[str, Any]

HEADER = "# Generated from shared/api/schema by make crds: do not edit.\n"
GENERATED_BY = {"dovetail.sh/generated-by": "make crds"}
LINE_WIDTH = 120


def custom_resource_definition(kind: type[Resource]) -> Document:
    """The definition of ``kind``. Raises ValueError with a field that a structural schema cannot express."""
    info = kind.INFO
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{info.plural}.{info.group}", "annotations": dict(GENERATED_BY)},
        "spec": {
            "group": info.group,
            "names": _names(info),
            "scope": "Namespaced" if info.namespaced else "Cluster",
            "versions": [_version(kind), *_also_served(kind)],
        },
    }


def crd_file(info: KindInfo) -> str:
    """Name of the file of a kind, such as ``karpenter.sh_nodepools.yaml``."""
    return f"{info.group}_{info.plural}.yaml"


def crd_text(kind: type[Resource]) -> str:
    """The content of the CRD file of a kind."""
    document = custom_resource_definition(kind)
    return HEADER + yaml.safe_dump(document, width=LINE_WIDTH, allow_unicode=True, sort_keys=True)


def chart_crd_text(kind: type[Resource]) -> str:
    """The same as a template of a Helm chart. Helm keeps the kind, and so its objects, when the chart is removed."""
    document = custom_resource_definition(kind)
    document["metadata"]["annotations"] |= {"helm.sh/resource-policy": "keep"}
    text = yaml.safe_dump(document, width=LINE_WIDTH, allow_unicode=True, sort_keys=True)
    return HEADER + text.replace("{{", '{{ "{{" }}')


def root_schema(kind: type[Resource]) -> Schema:
    """The schema of a whole object. The API server defines ``metadata`` itself and allows no schema for it."""
    schema = structural_schema(kind)
    properties = {**schema["properties"], "metadata": {"type": "object"}}
    return {**schema, "properties": properties, "required": ["spec"]}


def _version(kind: type[Resource]) -> Document:
    info = kind.INFO
    version: Document = {
        "name": info.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root_schema(kind)},
        "subresources": _subresources(info),
    }
    if info.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in info.columns]
    return version


def _also_served(kind: type[Resource]) -> list[Document]:
    return [{**_version(kind), "name": name, "storage": False} for name in kind.INFO.also_served]


def _names(info: KindInfo) -> Document:
    names: Document = {
        "kind": info.kind,
        "listKind": f"{info.kind}List",
        "plural": info.plural,
        "singular": info.kind.lower(),
    }
    if info.categories:
        names["categories"] = list(info.categories)
    if info.short_names:
        names["shortNames"] = list(info.short_names)
    return names


def _subresources(info: KindInfo) -> Document:
    if info.scale is None:
        return {"status": {}}
    spec_path, status_path = info.scale
    return {
        "status": {},
        "scale": {"specReplicasPath": spec_path, "statusReplicasPath": status_path},
    }


def _column(column: Column) -> Document:
    column_object: Document = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.wide:
        column_object["priority"] = 1
    if column.description:
        column_object["description"] = column.description
    return column_object
