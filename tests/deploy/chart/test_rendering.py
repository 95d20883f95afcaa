"""The chart is the one source: what is committed is what it gives."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml

from deploy import generate_manifests
from deploy.generate_manifests import REPOSITORY, SUMS, chart_files, generated, sources, sums
from deploy.rendering import components
from tests.support.cluster.helm import CHART, NEEDS_HELM

AGAIN = "run make manifests"
FOLDERS = (
    "deploy/kubernetes",
    "deploy/chart/files",
    "deploy/redis-tls",
    "deploy/beside-karpenter",
    "deploy/shadow",
)


def recorded() -> dict[str, str]:
    """The digests of deploy/manifests.sha256, by file."""
    lines = (REPOSITORY / SUMS).read_text().splitlines()
    pairs = (line.split("  ") for line in lines if not line.startswith("#"))
    return {name: digest for digest, name in pairs}


def test_the_files_are_those_that_were_read_and_written_together() -> None:
    """Needs no Helm: a change of the chart without a rendering, or of a rendered file by hand, changes a digest."""
    digests = {
        name: hashlib.sha256((REPOSITORY / name).read_bytes()).hexdigest() for name in recorded()
    }
    assert digests == recorded(), AGAIN
    assert {*sources()} <= digests.keys(), AGAIN


def test_every_file_of_a_generated_folder_is_generated() -> None:
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*")
        if path.is_file()
    }
    assert found <= recorded().keys(), "generated files whose source is gone: " + AGAIN


def test_schema_versions_and_reference_are_those_of_the_code() -> None:
    assert stale(dict(chart_files())) == [], AGAIN


def stale(files: dict[str, str]) -> list[str]:
    """Files that are missing, or have another content."""
    found = {name: REPOSITORY / name for name in files}
    return [
        name
        for name, path in found.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != files[name]
    ]


def test_a_generated_file_says_so_in_its_first_line() -> None:
    for name in recorded().keys() - {*sources()}:
        if name.endswith("Chart.yaml"):
            continue  # written by people but for its versions
        first = (REPOSITORY / name).read_text(encoding="utf-8").splitlines()[0]
        assert generate_manifests.MARK in first, name


@pytest.mark.slow
@NEEDS_HELM
def test_helm_gives_what_is_committed() -> None:
    assert stale(generated()) == [], AGAIN


@NEEDS_HELM
def test_dashboards_and_rules_join_the_chart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in deploy/observability, whatever its names."""
    root = tmp_path / "repository"
    for folder, name, text in (
        ("dashboards", "overview.json", '{"title": "Overview"}'),
        ("rules", "alerts.yaml", "groups: []\n"),
    ):
        path = root / "deploy" / "observability" / folder / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    monkeypatch.setattr(generate_manifests, "REPOSITORY", root)
    files = dict(generate_manifests._observability())
    assert (
        yaml.safe_load(files["deploy/chart/files/dashboards/overview.json"])["title"] == "Overview"
    )
    assert yaml.safe_load(files["deploy/chart/files/rules/alerts.yaml"]) == {"groups": []}
    assert all(generate_manifests.MARK in text.splitlines()[0] for text in files.values())


def test_the_digests_are_of_sources_and_results() -> None:
    name = "deploy/kubernetes/watcher.yaml"
    written = (REPOSITORY / name).read_text()
    lines = sums({name: written}).splitlines()
    assert f"{recorded()[name]}  {name}" in lines
    assert len(lines) == 1 + 1 + len(sources())
    assert (CHART / "values.yaml").relative_to(REPOSITORY).as_posix() in sources()


POD = {"containers": [{"name": "a", "args": ["x"], "env": [{"name": "E", "value": "1"}]}]}


@pytest.mark.parametrize(
    ("new", "change"),
    [
        (POD, {}),
        ({**POD, "volumes": [{"name": "v"}]}, {"volumes": [{"name": "v"}]}),
        (
            {"containers": [{**POD["containers"][0], "args": ["x", "y"]}]},
            {"containers": [{"name": "a", "args": ["x", "y"]}]},
        ),
        (
            {"containers": [{**POD["containers"][0], "env": [{"name": "E", "value": "2"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "E", "value": "2"}]}]},
        ),
    ],
)
def test_a_patch_says_no_more_than_the_difference(new: object, change: object) -> None:
    assert components.difference(POD, new) == change


def test_what_a_merge_cannot_take_away_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot take away"):
        components.difference({"a": 1, "b": 2}, {"a": 1})
