"""Every family tells its nodes the same, whatever the values hold (LCH-30..36)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.cloud.user_data.bootstrap import Bootstrap
from shared.cloud.user_data.rendering import LIMIT_BYTES, render
from shared.errors import InvalidObject
from tests.support.aws.boot_data import Said, body, bootstrap, parts, quoted

RENDERED = ("AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022", "Windows2025")
ONE_OF_EACH = ("AL2", "AL2023", "Bottlerocket", "Windows2022")
SCRIPTED = ("AL2", "AL2023", "Ubuntu")
NIGHTLY = 10_000

_NASTY = st.sampled_from(
    [
        "$(reboot)", "`reboot`", "'; reboot #", '"; reboot #', "' -Verbose '", "\\", "\\'", "''",
        "\n--//\n", "--//--", "\r\n", "\nFrom x\n", "\t#", "%h", "${HOME}", "$env:Path", "'''", '"""',
        "\u2019", "\u2018\u201b", "]]\n[settings]\n", "\x7f", "\x85", "\u2028", "é", "\U0001f600", "- ", ": ",
    ]
)  # fmt: skip
HOSTILE = st.lists(
    _NASTY | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    min_size=1, max_size=5,
).map("".join).filter(bool)  # fmt: skip
MACHINES = st.builds(
    bootstrap,
    cluster_name=HOSTILE,
    endpoint=HOSTILE,
    ca_bundle=HOSTILE,
    labels=st.dictionaries(HOSTILE, HOSTILE, min_size=1, max_size=1),
    taints=st.tuples(st.tuples(HOSTILE, HOSTILE, st.just("NoSchedule"))),
    max_pods=st.integers(0, 2**31),
)
SCRIPTS = HOSTILE.map(lambda text: "#!/bin/sh\n" + text).filter(lambda t: not t.endswith("\r"))


def assert_told_as_written(family: str, asked: Bootstrap) -> None:
    ((label, value),) = asked.labels.items()
    ((key, text, effect),) = asked.taints
    assert quoted(family, asked) == Said(
        asked.cluster_name,
        asked.endpoint,
        asked.ca_bundle,
        f"{label}={value}",
        f"{key}={text}:{effect}",
        asked.max_pods or 0,
    )


def assert_script_is_kept(family: str, script: str) -> None:
    found = parts(render(family, bootstrap(user_data=script)))
    assert [body(part) for part in found[:-1]] == [script]
    assert found[0].get_content_type() == "text/x-shellscript"


@pytest.mark.parametrize("family", ONE_OF_EACH)
def test_hostile_values_stay_values(family: str) -> None:
    """LCH-30, LCH-32..34: quotes, line ends, commands, boundaries. The families left out share this code."""
    given(MACHINES)(lambda asked: assert_told_as_written(family, asked))()


@pytest.mark.parametrize("family", SCRIPTED)
def test_a_users_script_is_the_first_part_verbatim(family: str) -> None:
    """LCH-31, LCH-32: also when it holds the usual boundary."""
    given(SCRIPTS)(lambda script: assert_script_is_kept(family, script))()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", RENDERED)
def test_ten_thousand_hostile_machines_of_every_family(family: str) -> None:
    _many(MACHINES, lambda asked: assert_told_as_written(family, asked))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", SCRIPTED)
def test_ten_thousand_hostile_scripts(family: str) -> None:
    _many(SCRIPTS, lambda script: assert_script_is_kept(family, script))


def _many(strategy: st.SearchStrategy[Any], holds: Callable[[Any], None]) -> None:
    settings(max_examples=NIGHTLY, deadline=None)(given(strategy)(lambda value: holds(value)))()


@pytest.mark.parametrize("family", RENDERED)
def test_the_same_bootstrap_is_always_the_same_text(family: str) -> None:
    """LCH-20: another text would be another launch template."""
    pairs = [("b", "2"), ("a", "1")]
    first = bootstrap(labels=dict(pairs), kubelet={"kubeReserved": {"memory": "1Gi", "cpu": "1"}})
    assert render(family, first) == render(family, first)


def test_custom_user_data_is_passed_as_it_is() -> None:
    """LCH-35: boot data of Custom."""
    asked = bootstrap(user_data="anything\r\n<at> all", labels={"a": "b"}, max_pods=3)
    assert render("Custom", asked) == "anything\r\n<at> all"
    assert render("Custom", bootstrap()) == ""


@pytest.mark.parametrize("family", [*RENDERED, "Custom"])
def test_more_than_16_kib_is_refused_with_the_reason_of_the_condition(family: str) -> None:
    """LCH-36: size of user data; EC-17: reasons of conditions."""
    with pytest.raises(InvalidObject, match=str(LIMIT_BYTES)) as raised:
        render(family, bootstrap(user_data="#" * (LIMIT_BYTES + 1)))
    assert raised.value.field == "spec.userData"
    assert raised.value.context["reason"] == "UserDataSizeLimitExceeded"


@pytest.mark.parametrize("family", RENDERED)
def test_what_we_add_counts(family: str) -> None:
    """LCH-36: the limit is of the whole, in bytes."""
    own = 'a = "{}"' if family == "Bottlerocket" else "#{}"
    fits = own.format("x" * (LIMIT_BYTES - 2000))
    assert len(render(family, bootstrap(user_data=fits)).encode()) <= LIMIT_BYTES
    with pytest.raises(InvalidObject, match="what the node must know"):
        render(family, bootstrap(user_data=own.format("x" * (LIMIT_BYTES - 6))))
    with pytest.raises(InvalidObject, match="has"):
        render(family, bootstrap(user_data=own.format("é" * (LIMIT_BYTES // 2))))


def test_a_family_that_is_none_is_named() -> None:
    with pytest.raises(InvalidObject, match=r"spec\.amiFamily: Debian.*Bottlerocket"):
        render("Debian", bootstrap())


def test_text_that_cannot_be_encoded_is_refused() -> None:
    with pytest.raises(InvalidObject, match=r"spec\.userData: is not Unicode"):
        render("AL2", bootstrap(user_data="\ud800"))
