"""One id for a request's answer, its log lines and its audit."""

from __future__ import annotations

import asyncio

import pytest

from croniq_site.kernel.request import answering, id_of_request, request_id
from scheduler.api.work.coalesce import Batch


@pytest.mark.parametrize("said", ["a", "0190-ab.c:d_e", "req/1+2=3@host", "x" * 64])
def test_a_plain_id_is_taken_over(said):
    assert id_of_request(said) == said


@pytest.mark.parametrize("said", [None, "", " ", "x" * 65, "a b", "a\nb", "-rf", "ä", '"', "<b>", "a\n"])
def test_any_other_is_replaced(said):
    fresh = id_of_request(said)
    assert fresh != said
    assert fresh != id_of_request(said)
    assert len(fresh) == 32


def test_the_id_ends_with_the_request():
    with answering("outer"):
        with answering("inner"):
            assert request_id.get() == "inner"
        assert request_id.get() == "outer"
    assert request_id.get() is None


def test_what_is_done_for_several_requests_is_done_for_none_by_name():
    seen = []

    async def run(questions):
        seen.append((questions, request_id.get()))
        return questions

    async def ask(batch, *names):
        answers = []
        for name in names:
            with answering(name):
                answers.append(batch(name))
        await asyncio.gather(*answers)

    async def story():
        batch = Batch(run, slots=1)
        await ask(batch, "one")
        await ask(batch, "two", "three")
        await ask(batch, "four")

    asyncio.run(story())
    assert seen == [(["one"], "one"), (["two", "three"], None), (["four"], "four")]
