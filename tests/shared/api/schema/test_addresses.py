"""The API server takes as address of a DNS server what is one, as ``dovetail validate`` does."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.crd.schemas import Validator
from shared.api.crd.model import read
from shared.api.crd.structural import structural_schema
from shared.api.schema.kubelet import KubeletConfiguration

VALIDATOR = Validator(structural_schema(KubeletConfiguration))
RULE = "clusterDNS must list IP addresses such as 10.100.0.10"
NEARLY = st.text(alphabet="0123456789abF:.", max_size=45) | st.lists(
    st.text(alphabet="019af", max_size=4), max_size=9
).map(":".join)


def refused(address: str) -> bool:
    document = {"metadata": {"name": "a"}, "clusterDNS": [address]}
    return any(RULE in str(error) for error in VALIDATOR.errors(document))


@given(st.ip_addresses() | st.ip_addresses(v=6, network="fd00::/96"))
def test_addresses_are_taken_short_and_written_out(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert not refused(str(address))
    assert not refused(address.exploded.upper())


@given(NEARLY)
def test_what_resembles_an_address_is_judged_as_when_it_is_read(text: str) -> None:
    """But for IPv4 addresses within IPv6 addresses, which the rule counts as one group."""
    if not (":" in text and "." in text):
        faults = read(KubeletConfiguration, {"clusterDNS": [text]})[1]
        assert refused(text) is bool(faults)


@pytest.mark.parametrize("text", ["::ffff:10.0.0.1", "1:2:3:4:5:6:10.0.0.1", "1::", "::", "::1"])
def test_less_usual_forms_are_taken(text: str) -> None:
    assert not refused(text)
    assert not read(KubeletConfiguration, {"clusterDNS": [text]})[1]


@pytest.mark.parametrize(
    "text", ["x", "", "10.0.0", "10.0.0.256", "010.0.0.1", "1::2::3", "fe80::1%eth0", "10.0.0.1\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    assert refused(text)
