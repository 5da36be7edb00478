"""How often somebody may ask: by key, by address, with wrong keys; and that runners are never told to ask less."""

from __future__ import annotations

import httpx
import pytest

from croniq_site.kernel.rates import MOST_NAMES, Buckets, Rate, network_of
from runners.api.limits import ADDRESSES, GUESSES, LONGEST_HEADER, MOST_GOOD, Guesses, PerKey
from tests.scheduler.edge.helpers import FakeRunner, due_run
from tests.support.server import live_edge

ELSEWHERE = {"X-Forwarded-For": "203.0.113.9"}
"""From a proxy on this host, which is trusted."""


@pytest.fixture(autouse=True)
def _nobody_has_asked():
    yield
    for buckets in (ADDRESSES._buckets, GUESSES, PerKey.buckets):
        buckets.forget()


def is_refused(answer: httpx.Response) -> bool:
    if answer.status_code != 429:
        return False
    assert answer.json()["error"] == "rate_limited"
    assert answer.json()["message"]
    assert 1 <= int(answer.headers["retry-after"]) <= 3600
    return True


@pytest.mark.django_db(transaction=True)
def test_wrong_keys_close_the_door_to_their_address_but_not_to_keys_that_are_known(settings):
    with live_edge(hold_seconds=0.1) as server:
        known, fresh = server.key("admin"), server.key("admin")
        runner = FakeRunner(server, server.key())
        assert server.get("/v1/jobs", key=known).status_code == 200
        assert runner.poll().status_code == 200
        settings.CRONIQ_RATE_WRONG_KEYS = Rate(3, 3600)
        for path in ("/v1/jobs", "/v1/work/poll", "/v1/runners"):
            assert server.post(path, {}, key=f"croniq_wrong{path[4:]}").status_code == 401
        assert is_refused(server.get("/v1/jobs", key="croniq_wrong"))
        elsewhere = {"authorization": "ApiKey croniq_wrong", **ELSEWHERE}
        for path in ("/v1/openapi.yaml", "/health", "/static/croniq.css"):  # where nobody looks at it
            assert server.http.get(path, headers=elsewhere).status_code == 200
        assert server.http.get("/v1/nothing", headers=elsewhere).status_code == 404
        assert is_refused(server.get("/v1/jobs", key="croniq_wrong"))
        assert is_refused(server.get("/v1/jobs", key=fresh))  # it might be one more guess
        # 429 is nothing that a runner knows; a passing fault is 503.
        answer = FakeRunner(server, "croniq_wrong").poll()
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert answer.headers["retry-after"]
        # Who was let in before, from the same address, is so still; who has no key is told that it takes one.
        assert server.get("/v1/jobs", key=known).status_code == 200
        assert runner.poll().status_code == 200
        assert server.get("/v1/jobs").status_code == 401
        assert server.http.get("/v1/jobs", headers={"authorization": f"ApiKey {fresh}", **ELSEWHERE}).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_an_address_may_ask_so_often_and_runners_and_probes_are_not_counted(settings):
    settings.CRONIQ_RATE_PER_ADDRESS = Rate(2, 3600)
    entry = due_run()
    with live_edge(hold_seconds=0.1) as server:
        assert server.http.get("/sign-in").status_code == 200
        assert server.get("/v1/jobs", key=server.key("admin")).status_code == 200
        assert is_refused(server.http.get("/sign-in"))
        assert is_refused(server.get("/v1/jobs", key=server.key("admin")))
        assert server.http.get("/sign-in", headers=ELSEWHERE).status_code == 200
        for path in ("/health", "/ready", "/version", "/metrics"):
            assert server.http.get(path).status_code != 429
        runner = FakeRunner(server, server.key())
        for _ in range(3):
            assert runner.work() is not None
        assert runner.ack(entry.run_id).status_code in (200, 409)


@pytest.mark.django_db(transaction=True)
def test_a_client_may_ask_so_often_with_all_its_keys_together(settings):
    settings.CRONIQ_RATE_PER_KEY = Rate(2, 3600)
    with live_edge(hold_seconds=0.1) as server:
        client = server.client("admin")
        for _ in range(2):
            assert server.get("/v1/jobs", key=server.key(client=client)).status_code == 200
        assert is_refused(server.get("/v1/jobs", key=server.key(client=client)))
        assert server.get("/v1/jobs", key=server.key("admin")).status_code == 200
        assert FakeRunner(server, server.key(client=client)).poll().status_code == 200


def test_a_bucket_fills_again_and_not_over():
    buckets, rate = Buckets(), Rate(10, 5.0)  # two a second
    assert [buckets.take("a", rate, 100.0) for _ in range(10)] == [0.0] * 10
    assert buckets.take("a", rate, 100.0) == pytest.approx(0.5)
    assert buckets.wait("a", rate, 100.25) == pytest.approx(0.25)
    assert buckets.take("a", rate, 100.5) == 0.0
    assert buckets.take("a", rate, 100.5) > 0
    assert buckets.wait("b", rate, 100.5) == 0.0
    assert [buckets.take("a", rate, 1e6) for _ in range(11)].count(0.0) == 10
    assert buckets.take("a", rate, 1.0) > 0  # a clock that went back gives nothing


def test_what_is_remembered_is_bounded(settings):
    buckets, rate = Buckets(), Rate(1, 3600)
    for number in range(MOST_NAMES + 5):
        buckets.take(str(number), rate, 0.0)
    assert len(buckets._left) == MOST_NAMES
    settings.CRONIQ_RATE_WRONG_KEYS = rate
    guesses = Guesses()
    for number in range(MOST_GOOD + 5):
        guesses.good(str(number))
    assert len(guesses._good) == MOST_GOOD
    guesses.good("x" * (LONGEST_HEADER + 1))
    assert not guesses.is_known("x" * (LONGEST_HEADER + 1))


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_who_an_address_belongs_to(address, network):
    assert network_of(address) == network
