"""Tallies are appended and folded; their sums are true at any moment."""

from __future__ import annotations

import pytest
from django.db.models import Sum

from scheduler.models import Tally
from scheduler.queries.gauges import Tallied, tallied
from scheduler.services.tally import FOLDED_FROM, Kind, fold_tallies, tally, tally_failed
from scheduler.workers.reaper import CHORES
from tests.factories import JobFactory, TallyFactory
from tests.support.races import Session, together


def total() -> int:
    return Tally.objects.aggregate(n=Sum("count"))["n"]


@pytest.mark.django_db
def test_sums_are_by_kind_label_and_job():
    job = JobFactory()
    tally(Kind.LOST, "lease", 2)
    tally(Kind.LOST, "lease")
    tally(Kind.LOST, "takeover")
    tally(Kind.BURIED, events=0)
    tally_failed({(job.pk, "dead"): 3})
    assert set(tallied()) == {
        Tallied("lost", "lease", None, 3),
        Tallied("lost", "takeover", None, 1),
        Tallied("failed", "dead", job.pk, 3),
    }


@pytest.mark.django_db
def test_many_rows_become_one_of_the_same_sum_and_few_stay(now):
    job = JobFactory()
    for n in range(FOLDED_FROM):
        tally(Kind.TAKEOVER, events=n + 1)
        tally_failed({(job.pk, "dead"): 1})
    for _ in range(FOLDED_FROM - 1):
        tally(Kind.LOST, "lease")
    before = set(tallied())
    assert fold_tallies(now) == 2 * FOLDED_FROM
    assert Tally.objects.count() == 2 + FOLDED_FROM - 1
    assert set(tallied()) == before
    assert fold_tallies(now) == 0


@pytest.mark.django_db
def test_what_is_folded_is_of_one_label_and_one_job(now):
    one, other = JobFactory(), JobFactory()
    for n in range(FOLDED_FROM):
        tally_failed({(one.pk, "dead"): n + 1, (one.pk, "failed"): 1, (other.pk, "dead"): 1})
    before = set(tallied())
    assert fold_tallies(now) == 3 * FOLDED_FROM
    assert (Tally.objects.count(), set(tallied())) == (3, before)


@pytest.mark.django_db
def test_a_batch_is_bounded_and_says_that_there_is_more(now):
    Tally.objects.bulk_create(TallyFactory.build() for _ in range(100))
    assert fold_tallies(now, limit=40) == 40
    assert Tally.objects.count() == 61
    while fold_tallies(now, limit=40):
        pass
    assert Tally.objects.count() < FOLDED_FROM
    assert total() == 100


@pytest.mark.django_db
def test_counts_of_a_deleted_job_go(now):
    kept, gone = JobFactory(), JobFactory(deleted_at=now)
    tally_failed({(kept.pk, "dead"): 1, (gone.pk, "dead"): 1})
    fold_tallies(now)
    assert list(Tally.objects.values_list("job_id", flat=True)) == [kept.pk]


def test_the_reaper_folds():
    assert fold_tallies in CHORES.values()


@pytest.mark.django_db(transaction=True)
def test_several_fold_at_once_while_others_count_and_nothing_is_lost_or_doubled(now):
    Tally.objects.bulk_create(TallyFactory.build() for _ in range(300))

    def fold() -> None:
        for _ in range(5):
            fold_tallies(now, limit=50)

    def count() -> None:
        for _ in range(10):
            tally(Kind.TAKEOVER)

    together([fold, fold, fold, count])
    assert total() == 310


@pytest.mark.django_db(transaction=True)
def test_who_counts_waits_for_nobody_who_counts_the_same(database):
    if database != "postgresql":
        pytest.skip("SQLite has one writer at a time, whatever it writes")
    with Session() as first, Session() as second:
        first.begin()
        first.run(tally, Kind.TAKEOVER)
        second.begin()
        second.start(tally, Kind.TAKEOVER).result(10)
        second.commit()
        assert total() == 1
        first.commit()
    assert total() == 2
