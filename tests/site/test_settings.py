"""Settings come from the environment; nonsense is refused at start, by the name of the variable."""

import os
import re
import resource
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured

from croniq_site import configuration
from croniq_site.kernel.rates import Rate

SHOW = "import croniq_site.settings as s; print({})"


@pytest.fixture
def environment(monkeypatch):
    """A reader of this process's environment without any CRONIQ_* or DATABASE_URL in it."""
    for name in list(os.environ):
        if name.startswith(("CRONIQ_", "DATABASE_URL")):
            monkeypatch.delenv(name)
    return environ.Env()


def _writes_no_file():
    """As on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def start(tmp_path, expression="s.DEBUG", *, preexec_fn=None, **variables):
    """Import the settings in a fresh process and return it, ended."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CRONIQ_", "DATABASE_URL", "DJANGO_"))}
    return subprocess.run(
        [sys.executable, "-c", SHOW.format(expression)],
        env={**kept, "CRONIQ_DATA_DIR": str(tmp_path / "data"), **variables},
        preexec_fn=preexec_fn,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CRONIQ_DEBUG", "perhaps"),
        ("CRONIQ_HTTPS", "2"),
        ("CRONIQ_LOG_LEVEL", "LOUD"),
        ("CRONIQ_TIME_ZONE", "Europe/Berln"),
        ("CRONIQ_TIME_ZONE", "../etc/passwd"),
        ("CRONIQ_HORIZON", "-1h"),
        ("CRONIQ_HORIZON", "1e9h"),
        ("CRONIQ_POLL_HOLD", "31s"),
        ("CRONIQ_MAX_PLANNED", "0"),
        ("CRONIQ_MAX_PLANNED", "1000000000"),
        ("CRONIQ_TENANT_MAX_CONCURRENT", "0"),
        ("CRONIQ_TENANT_MAX_CONCURRENT", "ten"),
        ("CRONIQ_RUN_RETENTION", "1h"),
        ("CRONIQ_LOG_RETENTION", "for ever"),
        ("DATABASE_URL", "mysql://root:hunter2@localhost/x"),
        ("DATABASE_URL", "hunter2"),
        ("CRONIQ_SECRET_KEY_FILE", "/nonexistent/key"),
        ("CRONIQ_SECRET_KEY", "hunter2"),
        ("CRONIQ_METRICS_ALLOW", "10.0.0.0/8,foo"),
        ("CRONIQ_TRUSTED_ORIGINS", "croniq.example"),
        ("DATABASE_URL", "sqlite://hunter2.db"),
        ("DATABASE_URL", "sqlite:///hunter2.db"),
        ("DATABASE_URL", '"postgres://croniq:hunter2@localhost/x"'),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_variable_without_repeating_secrets(tmp_path, name, value):
    ended = start(tmp_path, **{name: value})
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("django.core.exceptions.ImproperlyConfigured: " + name)
    assert "hunter2" not in ended.stderr


def test_the_command_line_says_it_in_one_sentence(tmp_path):
    ended = subprocess.run(
        [sys.executable, "manage.py", "serve"],
        cwd=Path(configuration.__file__).parents[1],
        env={**os.environ, "CRONIQ_DATA_DIR": str(tmp_path), "CRONIQ_HORIZON": "40d"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr.strip().splitlines()) == (
        1,
        [
            "Croniq cannot start: CRONIQ_HORIZON: '40d' is not a duration from 1m to 31d, such as 90s, 5m or 1.5h.",
        ],
    )


def test_a_secret_comes_from_its_variable_or_its_file_never_from_both(environment, monkeypatch, tmp_path):
    path = tmp_path / "secret"
    path.write_text("from the file\n")
    assert configuration.secret(environment, "CRONIQ_SECRET_KEY") is None
    monkeypatch.setenv("CRONIQ_SECRET_KEY_FILE", str(path))
    assert configuration.secret(environment, "CRONIQ_SECRET_KEY") == "from the file"
    monkeypatch.setenv("CRONIQ_SECRET_KEY", "from the variable")
    with pytest.raises(ImproperlyConfigured, match="both set"):
        configuration.secret(environment, "CRONIQ_SECRET_KEY")
    monkeypatch.delenv("CRONIQ_SECRET_KEY_FILE")
    assert configuration.secret(environment, "CRONIQ_SECRET_KEY") == "from the variable"
    path.write_text("\n")
    monkeypatch.delenv("CRONIQ_SECRET_KEY")
    monkeypatch.setenv("CRONIQ_SECRET_KEY_FILE", str(path))
    with pytest.raises(ImproperlyConfigured, match="is empty"):
        configuration.secret(environment, "CRONIQ_SECRET_KEY")


def test_the_secret_key_is_made_once_also_by_processes_that_start_together_and_only_its_owner_reads_it(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: start(tmp_path, "s.SECRET_KEY"), range(4)))
    assert {e.returncode for e in ended} == {0}, ended
    keys = {e.stdout.strip() for e in ended} | {start(tmp_path, "s.SECRET_KEY").stdout.strip()}
    assert len(keys) == 1
    assert len(keys.pop()) > 50
    path = tmp_path / "data" / "secret_key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["secret_key"]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700  # what is made in it has the umask's mode: the database


def test_on_a_disk_that_is_full_a_key_that_is_there_does_and_one_that_cannot_be_made_leaves_nothing(tmp_path):
    """Who would make room with `manage.py prune` must get so far."""
    refused = start(tmp_path, "s.SECRET_KEY", preexec_fn=_writes_no_file)
    assert "CRONIQ_DATA_DIR: " in refused.stderr.strip().splitlines()[-1]
    assert list((tmp_path / "data").iterdir()) == []
    (tmp_path / "data" / "secret_key").write_text("k" * 50)
    assert start(tmp_path, "s.SECRET_KEY", preexec_fn=_writes_no_file).stdout.strip() == "k" * 50


@pytest.mark.parametrize("value", ["$HOME", "$croniq$", "$"])
def test_a_value_that_begins_with_a_dollar_is_itself_and_names_no_other_variable(environment, monkeypatch, value):
    monkeypatch.setenv("CRONIQ_SECRET_KEY", value)
    assert configuration.secret(environment, "CRONIQ_SECRET_KEY") == value
    monkeypatch.setenv("DATABASE_URL", value)
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL: "):
        configuration.database_from_url(environment, default_path=Path("/x"))


@pytest.mark.parametrize(
    ("read", "good", "bad"),
    [
        (
            configuration.served_names,
            "croniq.example,localhost,127.0.0.1,[::1],.example.org,*,my_host",
            ["https://croniq.example", "croniq.example:4000", "::1", "croniq.example/", "two hosts", "*.example.org"],
        ),
        (
            configuration.origins,
            "https://croniq.example,http://localhost:4000,https://*.example.org",
            ["croniq.example", "https://croniq.example/", "https://croniq.example/x", "https://", "https://me@x"],
        ),
    ],
)
def test_names_that_would_answer_nobody_are_refused(environment, monkeypatch, read, good, bad):
    options = {} if read is configuration.origins else {"default": ["localhost"]}
    monkeypatch.setenv("CRONIQ_X", good)
    assert read(environment, "CRONIQ_X", **options) == good.split(",")
    for text in bad:
        monkeypatch.setenv("CRONIQ_X", f"{good},{text}")
        with pytest.raises(ImproperlyConfigured, match=rf"^CRONIQ_X: {re.escape(repr(text))}"):
            read(environment, "CRONIQ_X", **options)


def test_a_data_directory_is_the_same_wherever_a_command_is_started(environment, monkeypatch):
    default = Path("/somewhere/data")
    for given, place in [("", default), ("/var/lib/croniq", Path("/var/lib/croniq")), ("~/x", Path.home() / "x")]:
        monkeypatch.setenv("CRONIQ_DATA_DIR", given)
        assert configuration.folder(environment, "CRONIQ_DATA_DIR", default=default) == place
    monkeypatch.setenv("CRONIQ_DATA_DIR", "data")
    with pytest.raises(ImproperlyConfigured, match=r"^CRONIQ_DATA_DIR: 'data'"):
        configuration.folder(environment, "CRONIQ_DATA_DIR", default=default)


def test_production_is_the_default_and_debug_must_be_asked_for(tmp_path):
    shown = "(s.DEBUG, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_SSL_REDIRECT, s.SECURE_HSTS_SECONDS > 0)"
    assert start(tmp_path, shown).stdout.strip() == "(False, True, True, True, True)"
    assert start(tmp_path, shown, CRONIQ_DEBUG="1").stdout.strip() == "(True, False, False, False, False)"
    assert start(tmp_path, shown, CRONIQ_HTTPS="off").stdout.strip() == "(False, False, False, False, False)"


def test_the_database_is_sqlite_in_the_data_directory_unless_told_otherwise(environment, monkeypatch, tmp_path):
    settings = configuration.database_from_url(environment, default_path=tmp_path / "croniq.sqlite3")
    assert (settings["ENGINE"], settings["NAME"]) == ("django.db.backends.sqlite3", str(tmp_path / "croniq.sqlite3"))
    assert settings["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    monkeypatch.setenv("DATABASE_URL", "postgres://croniq:secret@db.example:5433/jobs")
    settings = configuration.database_from_url(environment, default_path=tmp_path / "x")
    assert (settings["ENGINE"], settings["HOST"], settings["PORT"], settings["NAME"]) == (
        "django.db.backends.postgresql",
        "db.example",
        5433,
        "jobs",
    )
    monkeypatch.setenv("DATABASE_URL", "postgres://croniq:secret@db.example")
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL: ") as refused:
        configuration.database_from_url(environment, default_path=tmp_path / "x")
    assert "secret" not in str(refused.value)


def test_a_database_host_that_is_gone_without_a_word_is_noticed_before_a_watchdog_bites(environment, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://croniq@db.example/jobs?connect_timeout=3&sslmode=require")
    options = configuration.database_from_url(environment, default_path=Path("/x"))["OPTIONS"]
    assert (options["connect_timeout"], options["sslmode"]) == (3, "require")
    dead_after = options["keepalives_idle"] + options["keepalives_interval"] * options["keepalives_count"]
    assert max(dead_after, options["tcp_user_timeout"] / 1000) + 10 < 60  # WatchdogSec of the units


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5h", 5400), ("5m", 300), ("1d", 86_400)])
def test_durations(environment, monkeypatch, text, seconds):
    monkeypatch.setenv("CRONIQ_HORIZON", text)
    assert configuration.duration_seconds(environment, "CRONIQ_HORIZON", default="1h", least=1, most=1e6) == seconds


@pytest.mark.parametrize("text", ["", "  "])
def test_a_blank_variable_is_an_unset_one(environment, monkeypatch, text):
    monkeypatch.setenv("CRONIQ_HORIZON", text)
    assert configuration.duration_seconds(environment, "CRONIQ_HORIZON", default="1h", least=1, most=1e6) == 3600


@pytest.mark.parametrize("text", ["٣s", "1", "s", "1 s", "nan", "infs", "1e3s", "0s", "--1s"])
def test_durations_that_are_none(environment, monkeypatch, text):
    monkeypatch.setenv("CRONIQ_HORIZON", text)
    with pytest.raises(ImproperlyConfigured, match=r"^CRONIQ_HORIZON"):
        configuration.duration_seconds(environment, "CRONIQ_HORIZON", default="1h", least=1, most=1e6)


def test_a_retention_that_is_none_is_told_with_examples_that_would_do(environment, monkeypatch):
    monkeypatch.setenv("CRONIQ_RUN_RETENTION", "90s")
    with pytest.raises(ImproperlyConfigured, match=r"from 1d to 3650d, such as 30d, 90d or 365d\. 0 keeps it for ever"):
        configuration.retention_seconds(environment, "CRONIQ_RUN_RETENTION", default="0", least=86_400)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("0d", 0), ("2d", 172_800), ("", 86_400)])
def test_what_is_kept_for_ever_is_kept_for_nought(environment, monkeypatch, text, seconds):
    monkeypatch.setenv("CRONIQ_LOG_RETENTION", text)
    assert configuration.retention_seconds(environment, "CRONIQ_LOG_RETENTION", default="1d", least=3600) == seconds


@pytest.mark.parametrize(
    ("text", "rate"),
    [("", Rate(60, 60)), ("0", None), ("100/s", Rate(100, 1)), ("600/m", Rate(600, 60)), ("5000/h", Rate(5000, 3600))],
)
def test_rates(environment, monkeypatch, text, rate):
    monkeypatch.setenv("CRONIQ_RATE_PER_KEY", text)
    assert configuration.rate(environment, "CRONIQ_RATE_PER_KEY", default="60/m") == rate


@pytest.mark.parametrize("text", ["5", "0/s", "-1/s", "1/d", "1.5/s", "1000001/s", "٣/s", "1/ss", "none"])
def test_rates_that_are_none(environment, monkeypatch, text):
    monkeypatch.setenv("CRONIQ_RATE_PER_KEY", text)
    with pytest.raises(ImproperlyConfigured, match=r"^CRONIQ_RATE_PER_KEY"):
        configuration.rate(environment, "CRONIQ_RATE_PER_KEY", default="0")


def test_networks_are_whole_ones_and_none_is_none(environment, monkeypatch):
    monkeypatch.setenv("CRONIQ_TRUSTED_PROXIES", "10.1.2.3/8, 192.0.2.7,::1")
    read = configuration.networks(environment, "CRONIQ_TRUSTED_PROXIES", default=["127.0.0.0/8"])
    assert read == ["10.0.0.0/8", "192.0.2.7/32", "::1/128"]
    monkeypatch.setenv("CRONIQ_TRUSTED_PROXIES", "none")
    assert configuration.networks(environment, "CRONIQ_TRUSTED_PROXIES", default=["127.0.0.0/8"]) == []
    monkeypatch.setenv("CRONIQ_TRUSTED_PROXIES", "*")
    with pytest.raises(ImproperlyConfigured, match=r"^CRONIQ_TRUSTED_PROXIES"):
        configuration.networks(environment, "CRONIQ_TRUSTED_PROXIES", default=[])


def test_hosts_below_this_one_are_promised_to_nobody_unless_asked_for(tmp_path):
    shown = "(s.SECURE_HSTS_SECONDS, s.SECURE_HSTS_INCLUDE_SUBDOMAINS, s.SECURE_HSTS_PRELOAD)"
    assert start(tmp_path, shown).stdout.strip() == "(31536000, False, False)"
    told = start(tmp_path, shown, CRONIQ_HSTS="1h", CRONIQ_HSTS_SUBDOMAINS="1").stdout.strip()
    assert told == "(3600, True, True)"
    assert start(tmp_path, shown, CRONIQ_HSTS="0").stdout.strip() == "(0, False, False)"


def test_docs_list_every_variable():
    root = Path(configuration.__file__).parents[1]
    used = set()
    for path in [root / "croniq_site/settings.py", root / "runners/management/commands/runner.py"]:
        used |= set(re.findall(r'"((?:CRONIQ_[A-Z_]+|DATABASE_URL))"', path.read_text()))
    documented = set(re.findall(r"`((?:CRONIQ_[A-Z_]+|DATABASE_URL))`", (root / "docs/settings.md").read_text()))
    assert used - documented == set()
    assert len(used) > 8
