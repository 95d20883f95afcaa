"""Who ordered a deletion, as the requests of the services show it."""

from __future__ import annotations

import pytest

from shared.kube.informer import Key
from simulation.chaos.ways.deletions import EFFECT_SECONDS, Deletions
from tests.support.clock.fake import FakeClock

POD = b"/api/v1/namespaces/default/pods/web-1"
CLAIM = b"/apis/karpenter.sh/v1/nodeclaims/main-1"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(seconds=100.0)


@pytest.fixture
def deletions(clock: FakeClock) -> Deletions:
    return Deletions(clock.monotonic)


def request(method: bytes, path: bytes) -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "path", "plural", "key", "verb"),
    [
        (b"DELETE", POD, "pods", Key("default", "web-1"), "delete"),
        (b"DELETE", CLAIM + b"?dryRun=", "nodeclaims", Key("", "main-1"), "delete"),
        (b"POST", POD + b"/eviction", "pods", Key("default", "web-1"), "evict"),
    ],
)
def test_an_order_names_the_service_once(
    deletions: Deletions, method: bytes, path: bytes, plural: str, key: Key, verb: str
) -> None:
    deletions.note("terminator", request(method, path))
    assert deletions.take(plural, key) == (verb, "terminator")
    assert deletions.take(plural, key) == ("delete", "")


@pytest.mark.parametrize(
    "data",
    [
        request(b"PATCH", POD),
        request(b"POST", POD + b"/binding"),
        request(b"DELETE", b"/healthz"),
        b"*1\r\n$4\r\nPING\r\n",
    ],
)
def test_other_requests_order_no_deletion(deletions: Deletions, data: bytes) -> None:
    deletions.note("terminator", data)
    assert deletions.take("pods", Key("default", "web-1")) == ("delete", "")


def test_an_order_without_effect_is_forgotten(deletions: Deletions, clock: FakeClock) -> None:
    deletions.note("terminator", request(b"DELETE", POD))
    clock.advance(EFFECT_SECONDS + 1)
    assert deletions.take("pods", Key("default", "web-1")) == ("delete", "")


def test_nobody_has_no_name(deletions: Deletions) -> None:
    deletions.note("", request(b"DELETE", POD))
    assert deletions.take("pods", Key("default", "web-1")) == ("delete", "")
