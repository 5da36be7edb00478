"""A run that said too much: the first answer stays small, and nothing of it is out of reach. (DB-02)"""

from __future__ import annotations

import pytest

from scheduler.models import RunLog
from scheduler.queries.logs import LIST_MESSAGE_CHARACTERS
from tests.factories import RunFactory, RunLogFactory

pytestmark = pytest.mark.django_db
FOUR_MB = 4_000_000


def following(answer) -> str | None:
    return answer["Link"].partition(">")[0].removeprefix("<") if answer.has_header("Link") else None


def test_a_megabyte_at_most_and_the_rest_by_the_link(api):
    run = RunFactory()
    lines = [RunLogFactory.build(run=run, message=f"{n} " + "x" * 1000) for n in range(2500)]
    lines[1] = RunLogFactory.build(run=run, message="é" * FOUR_MB)
    RunLog.objects.bulk_create(lines, batch_size=500)
    client, url, seen = api(), f"/v1/executions/{run.pk}/logs", []
    while url:
        answer = client.get(url)
        assert answer.status_code == 200
        assert len(answer.content) <= 1_000_000
        seen += answer.json()
        url = following(answer)
    assert [row["id"] for row in seen] == [line.pk for line in lines]
    cut = seen[1]
    assert cut["message"].startswith("é" * LIST_MESSAGE_CHARACTERS)
    assert cut["message"].endswith("[cut by Croniq]")
    assert seen[2]["message"] == lines[2].message
    whole = client.get(f"/v1/executions/{run.pk}/logs/{cut['id']}").json()
    assert whole["message"] == "é" * FOUR_MB
    assert {**whole, "message": ""} == {**cut, "message": ""}


def test_a_line_that_is_larger_alone_is_answered_alone(api):
    run = RunFactory()
    first = RunLogFactory(run=run, fields={"x": "y" * 1_500_000})
    second = RunLogFactory(run=run)
    answer = api().get(f"/v1/executions/{run.pk}/logs")
    assert [row["id"] for row in answer.json()] == [first.pk]
    assert [row["id"] for row in api().get(following(answer)).json()] == [second.pk]


def test_who_says_how_many_lines_gets_so_many(api):
    run = RunFactory()
    RunLog.objects.bulk_create([RunLogFactory.build(run=run, message="x" * 1000) for _ in range(1200)], batch_size=500)
    client = api()
    assert len(client.get(f"/v1/executions/{run.pk}/logs?limit=1200").json()) == 1200
    few = client.get(f"/v1/executions/{run.pk}/logs?limit=3")
    assert len(few.json()) == 3
    assert "limit=3" in following(few)


@pytest.mark.parametrize("line", ["0", "x", "-1", "9" * 30, "%00", "٣"])
def test_a_line_that_is_none_is_404(api, line):
    run = RunFactory()
    RunLogFactory(run=run)
    assert api().get(f"/v1/executions/{run.pk}/logs/{line}").status_code == 404


def test_a_line_is_its_runs_and_its_tenants(api):
    run = RunFactory(job__tenant="acme", job__lane__tenant="acme")
    line, other = RunLogFactory(run=run), RunLogFactory()
    path = f"/v1/executions/{run.pk}/logs"
    assert api(tenant="acme").get(f"{path}/{line.pk}").status_code == 200
    assert api(tenant="acme").get(f"{path}/{other.pk}").status_code == 404
    assert api(tenant="other").get(f"{path}/{line.pk}").status_code == 404
