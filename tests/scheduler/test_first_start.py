"""The first start of an installation that is not as fresh as one thinks."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from croniq_site.kernel.clock import DatabaseClock
from runners.models import ApiClient
from scheduler.services.demo import create_demo_jobs
from scheduler.services.installation import ensure_admin, ensure_local_runner_key
from tests.support.races import together

pytestmark = pytest.mark.django_db(transaction=True)


def test_first_starts_of_one_database_on_several_hosts_make_one_administrator():
    passwords = together([ensure_admin] * 4)
    assert sum(password is not None for password in passwords) == 1


def test_first_starts_of_one_database_on_several_hosts_make_one_client(tmp_path):
    now = DatabaseClock().now()
    together([lambda place=place: ensure_local_runner_key(tmp_path / place / "key", now) for place in "abcd"])
    assert ApiClient.objects.count() == 1


def test_first_starts_of_one_database_on_several_hosts_make_the_demo_jobs_once():
    now = DatabaseClock().now()
    made = together([lambda: create_demo_jobs(now)] * 4)
    assert sum(bool(keys) for keys in made) == 1


def test_a_user_admin_who_is_no_superuser_is_no_obstacle():
    get_user_model().objects.create_user("admin")
    ensure_admin()
    assert get_user_model().objects.filter(is_superuser=True).exists()


def test_a_key_file_that_is_no_text_is_replaced(tmp_path):
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    ensure_local_runner_key(tmp_path / "key", DatabaseClock().now())
