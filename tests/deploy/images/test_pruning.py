"""What an image leaves out of the installed packages is not used by any service (``release/image``)."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import fields
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from aiobotocore.session import AioSession
from botocore.loaders import Loader

from local.stack_plan import CONSOLE, SERVICES
from release.image import prune
from release.image.elf import interpreter_and_needed, loadable
from shared.cloud.client.calls import ServiceCalls
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock

PROJECT = Path(__file__).resolve().parents[3]
CREDENTIALS = {"sts", "sso", "sso-oidc"}
"""Called by the client library itself, for the credentials of a role or a person."""
ARCHIVE = {"s3"}
"""Called by ``shared.cloud.buckets``, which has a client of its own."""
SITE = Path(str(find_spec("botocore").origin)).parents[1]  # type: ignore[union-attr]
"""Where this environment has its packages."""


@pytest.fixture
async def called() -> set[str]:
    """The AWS services that a Cloud has clients of."""
    cloud = await Cloud.connect(
        region="us-west-2", endpoint_url="http://127.0.0.1:9", clock=SystemClock(), random=Random(1),
        user_agent="dovetail-tests", access_key=("id", "secret"),
    )  # fmt: skip
    own = {one.name for one in fields(Cloud)}
    clients = (value for name, value in vars(cloud).items() if name not in own)
    parts = (part for client in clients for part in getattr(client, "__dict__", {}).values())
    found = {part.service for part in parts if isinstance(part, ServiceCalls)}
    await cloud.close()
    return found


async def test_the_models_of_botocore_that_stay_are_those_of_the_clients(called: set[str]) -> None:
    """One too few is a service that fails at its first call; one too many is some megabytes."""
    assert called | CREDENTIALS | ARCHIVE == prune.AWS_MODELS


@pytest.mark.slow
@pytest.mark.parametrize("service", sorted(prune.AWS_MODELS))
async def test_a_client_is_made_from_the_models_that_stay(service: str, tmp_path: Path) -> None:
    """From a copy of botocore's data without the others."""
    data = SITE / "botocore" / "data"
    left_out = {path.name for path in prune.unused_models(data)}
    for path in data.iterdir():
        if path.name not in left_out:
            (tmp_path / path.name).symlink_to(path)
    session = AioSession()
    session.set_credentials("id", "secret")
    loader = Loader(extra_search_paths=[str(tmp_path)], include_default_search_paths=False)
    session.register_component("data_loader", loader)
    async with session.create_client(service, region_name="us-west-2") as client:
        assert client.meta.service_model.service_name == service
    assert len(left_out) > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    ["services.watcher.service", "services.scheduler.service, cel", "cli.manifests.simulate"],
)
def test_a_service_imports_nothing_that_is_removed(module: str) -> None:
    """kubernetes_asyncio's models and API classes are replaced by empty modules when it is imported."""
    removed = [one.removesuffix(".py") for one in prune.UNUSED]
    paths = [name.replace(".", "/") for name in loaded(module)]
    assert len(paths) > 300
    assert [path for path in paths if any(fnmatch(path, one) for one in removed)] == []


def loaded(module: str) -> list[str]:
    """The modules in a new interpreter that has imported ``module``."""
    script = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=True, timeout=60
    )  # fmt: skip
    return done.stdout.split()


PLAN_WITHOUT = """
import sys
from release.image.prune import NUMPY_WITHOUT
sys.modules |= {f"numpy.{name}": None for name in NUMPY_WITHOUT} | {"numpy._core._simd": None}
from tests.support.planning.builders import make_pods, make_snapshot
from tests.support.planning.snapshots import plan_for
for policy in ("FewestNodes", "Balanced", "LowestCost"):
    print(len(plan_for(make_snapshot(*make_pods(9, cpu="3")), packing_policy=policy).machines))
"""


@pytest.mark.slow
def test_plans_are_made_without_what_is_removed_of_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAN_WITHOUT], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert min(map(int, done.stdout.split())) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads libraries for Linux")
@pytest.mark.parametrize("name", ["yaml._yaml", "uvloop.loop", "zstandard.backend_c"])
def test_a_library_is_loaded_without_its_sections_for_debuggers(name: str, tmp_path: Path) -> None:
    """Under another name it could not be imported: a module's library has a function of its name."""
    original = Path(str(find_spec(name).origin))  # type: ignore[union-attr]
    smaller = tmp_path / original.name
    smaller.write_bytes(loadable(original.read_bytes()))
    assert smaller.stat().st_size < original.stat().st_size
    assert loadable(smaller.read_bytes()) == smaller.read_bytes()
    assert interpreter_and_needed(smaller) == interpreter_and_needed(original)
    script = (
        "import sys, importlib.util as u; "
        f"found = u.spec_from_file_location({name!r}, {str(smaller)!r}); "
        f"module = u.module_from_spec(found); found.loader.exec_module(module); print(module.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=60
    )  # fmt: skip
    assert done.stdout.strip() == str(smaller), done.stderr


def test_what_is_no_library_stays_as_it_is() -> None:
    assert loadable(b"INPUT(-lc)\n") == b"INPUT(-lc)\n"


@pytest.mark.parametrize(
    ("folder", "rule", "users"),
    [
        ("solver", "Only the scheduler plans", {"scheduler"}),
        (
            "expressions",
            "Only scheduler and launcher evaluate expressions",
            {"scheduler", "launcher"},
        ),
    ],
)
def test_import_rules_bar_packages_from_services_whose_images_lack_them(
    folder: str, rule: str, users: set[str]
) -> None:
    rules = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (found,) = (one for one in rules["contracts"] if one["name"] == rule)
    packages = (one for one in prune.APART[folder] if not one.endswith(".dist-info"))
    tops = {one.split(".")[0] for one in packages}
    assert set(found["forbidden_modules"]) == tops
    others = {f"services.{name}" for name in (*SERVICES, CONSOLE) if name not in users}
    assert set(found["source_modules"]) == others


def test_a_rule_that_finds_nothing_is_an_error(tmp_path: Path) -> None:
    """A package that moved its files would make the images grow unseen."""
    with pytest.raises(ValueError, match="finds nothing"):
        list(prune.unused(tmp_path, all_models=True))


def test_equal_libraries_are_kept_once(tmp_path: Path) -> None:
    """A wheel cannot hold links: it has a library twice."""
    whole, short, other = (tmp_path / name for name in ("liba.so.1.2.3", "liba.so.1", "libb.so.1"))
    whole.write_bytes(b"same")
    short.write_bytes(b"same")
    other.write_bytes(b"same")
    assert list(prune.repeated_libraries(tmp_path)) == [(short, whole)]
