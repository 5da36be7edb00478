"""django-prometheus' own series: requests and statements of what Django answers."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from scheduler.metrics.statements import observe
from tests.scheduler.metrics.scrapes import parsed, scraped
from tests.support.server import live_edge

BY_STATUS = "django_http_responses_total_by_status_view_method_total"


@pytest.mark.django_db(transaction=True)
def test_a_server_tells_its_requests_and_the_statements_of_its_pages(database):
    def told() -> dict[str, float]:
        text = server.get("/metrics").text
        scrape = parsed(text)
        return {
            "requests": scrape.value(BY_STATUS, status="200", view="version", method="GET") or 0,
            "seconds": scrape.value("django_http_requests_latency_including_middlewares_seconds_count") or 0,
            "statements": scrape.value("django_db_execute_total", alias="default", vendor=database) or 0,
            "timed": scrape.value("django_db_query_duration_seconds_count", alias="default", vendor=database) or 0,
        }

    with live_edge() as server:
        before = told()
        for _ in range(3):
            assert server.get("/version").status_code == 200
        after = told()
    assert after["requests"] == before["requests"] + 3
    assert after["seconds"] >= before["seconds"] + 4
    assert after["statements"] > before["statements"]
    assert after["timed"] > before["timed"]


@pytest.mark.django_db
def test_no_client_makes_series_by_the_methods_or_paths_that_it_invents(clock):
    client = Client()

    def http_series() -> set:
        return {(name, labels) for name, labels in scraped().series if name.startswith("django_http")}

    def strange(n: int) -> None:
        client.generic(f"METHOD{n}", "/version")
        client.get(f"/no/such/path/{n}")
        client.get(f"/v1/jobs/demo:{n}")

    strange(0)
    before = http_series()
    for n in range(1, 20):
        strange(n)
    assert http_series() == before


@pytest.mark.django_db
def test_errors_are_counted_by_their_kind_and_other_connections_are_not_watched(database):
    def errors() -> float:
        found = scraped().samples.items()
        return sum(value for (name, _), value in found if name == "django_db_errors_total")

    assert connection.execute_wrappers == []  # nor is that of any thread but the pages'
    before = errors()
    observe(connection)
    try:
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT * FROM no_such_table")
    finally:
        connection.execute_wrappers.clear()
    assert errors() == before + 1
