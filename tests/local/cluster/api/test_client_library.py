"""kubernetes_asyncio, as shared/kube uses it, against the embedded server."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from kubernetes_asyncio import client

from tests.local.cluster.api.conftest import Api, Document


@pytest.fixture(scope="module", autouse=True)
def typed_models() -> None:
    """The whole library: whoever imported ``shared.kube`` before has it without its typed models."""
    importlib.reload(client.models)
    importlib.reload(client)


@pytest.fixture
async def library(api: Api) -> AsyncIterator[Any]:
    settings = client.Configuration(host=api.url)
    async with client.ApiClient(settings) as connection:
        yield connection


async def test_typed_objects_are_created_listed_and_deleted(library: Any, pod: Document) -> None:
    core = client.CoreV1Api(library)
    await core.create_namespaced_pod("default", pod)
    listed = await core.list_namespaced_pod("default", label_selector="app=web")
    assert [item.metadata.name for item in listed.items] == ["web"]
    await core.delete_namespaced_pod("web", "default")
    assert (await core.list_namespaced_pod("default")).items == []


async def test_a_raw_watch_streams_lines(library: Any, api: Api, pod: Document) -> None:
    core = client.CoreV1Api(library)
    api.store.create("pods", pod, namespace="default")
    answer = await core.list_pod_for_all_namespaces(
        watch=True, _preload_content=False, timeout_seconds=1
    )
    line = await answer.content.readline()
    assert line.startswith(b'{"type":"ADDED"')
    answer.release()


async def test_custom_objects_are_merge_patched(
    library: Any, api: Api, definition: Document
) -> None:
    group = "apiextensions.k8s.io"
    api.store.create("customresourcedefinitions", definition, group=group)
    api.store.create("pools", {"metadata": {"name": "a"}}, group="example.org")
    custom = client.CustomObjectsApi(library)
    patched = await custom.patch_cluster_custom_object(
        "example.org",
        "v1",
        "pools",
        "a",
        {"spec": {"weight": 3}},
        _content_type="application/merge-patch+json",
    )
    assert patched["spec"] == {"weight": 3}
