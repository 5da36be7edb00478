"""Where HTTP jobs may connect to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from runners.agent.addresses import HostRules

METADATA = [
    *("169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200"),
    *("168.63.129.16", "192.0.0.192", "fd20:ce::254"),
    *("::ffff:169.254.169.254", "2002:a9fe:a9fe::1", "64:ff9b::a9fe:a9fe"),  # the same in IPv6
    # as other networks translate it: NAT64 of one's own, IPv4-compatible, -translated, Teredo, ISATAP
    *("64:ff9b:1::a9fe:a9fe", "::169.254.169.254", "::ffff:0:169.254.169.254", "2001:0:0808:0808::5601:5601"),
    *("2001:db8::5efe:a9fe:a9fe", "2001:db8::200:5efe:a9fe:a9fe"),
]


def is_allowed(rules: list[str], host: str, address: str) -> bool:
    return HostRules.of(rules).refusal(host, ip_address(address)) is None


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("rules", [[], ["metadata.test"], ["0.0.0.0/0", "::/0"]])
def test_what_gives_out_credentials_is_opened_by_no_name_and_by_no_wide_network(address: str, rules: list[str]) -> None:
    assert not is_allowed(rules, "metadata.test", address)


@pytest.mark.parametrize("rule", ["169.254.169.254", "169.254.169.0/24", "169.254.0.0/16"])
def test_who_names_it_may_have_it(rule: str) -> None:
    assert is_allowed([rule], "anything.test", "169.254.169.254")
    assert is_allowed([rule], "anything.test", "::ffff:169.254.169.254")
    assert not is_allowed([rule], "anything.test", "fe80::1")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "8.8.8.8", "::1", "2001:db8::1"])
def test_everything_else_is_open_unless_rules_say_what_is(address: str) -> None:
    assert is_allowed([], "a.test", address)
    assert not is_allowed(["b.test", "172.16.0.0/12"], "a.test", address)
    assert is_allowed([address], "a.test", address)


@pytest.mark.parametrize(
    ("rule", "host", "allowed"),
    [
        ("api.test", "api.test", True),
        ("api.test", "API.test.", True),
        ("API.test.", "api.test", True),
        ("api.test", "v.api.test", False),
        ("api.test", "notapi.test", False),
        ("*.api.test", "v.api.test", True),
        ("*.api.test", "a.v.api.test", True),
        ("*.api.test", "api.test", False),
        ("*.api.test", "notapi.test", False),
        ("10.0.0.0/8", "api.test", False),
    ],
)
def test_names_are_whole_names(rule: str, host: str, allowed: bool) -> None:
    assert is_allowed([rule], host, "203.0.113.7") is allowed


@pytest.mark.parametrize(
    "text", ["", "a b", "http://a.test", "a.test:80", "*", "*.", "a.*.test", "10.0.0.1/8", "a..b", "a/b"]
)
def test_what_is_neither_a_host_nor_a_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*") as caught:
        HostRules.of([text])
    assert str(caught.value) == text
