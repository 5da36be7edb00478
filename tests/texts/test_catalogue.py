"""German is whole: every text has its translation, every value its place, and what is committed is what is used."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import polib
import pytest
from django.db import connection
from django.utils import translation

from croniq_site.management.commands.makemessages import is_sentence, sentences_of
from scheduler.dashboard.sentences import said
from scheduler.domain.words import english
from scheduler.queries.spoken import say
from tests.architecture.tree import ROOT

FOLDER = ROOT / "locale/de/LC_MESSAGES"
CATALOGUE = polib.pofile(str(FOLDER / "django.po"))
VALUES = re.compile(r"%\(\w+\)[sd]|%%|\{[a-z_0-9:]+\}")
MARKUP = re.compile(r"</?\w+[^>]*>")
SOURCES = ("calendars", "croniq_site", "locale", "runners", "scheduler", "templates", "manage.py", "pyproject.toml")


def forms(entry: polib.POEntry) -> list[tuple[str, str]]:
    """Each text with its translation."""
    if not entry.msgid_plural:
        return [(entry.msgid, entry.msgstr)]
    return [(entry.msgid, entry.msgstr_plural[0]), (entry.msgid_plural, entry.msgstr_plural[1])]


def test_every_text_is_translated():
    assert len(CATALOGUE) > 1000
    left = {"none": CATALOGUE.untranslated_entries(), "fuzzy": CATALOGUE.fuzzy_entries()}
    assert {why: [entry.msgid for entry in entries] for why, entries in left.items() if entries} == {}
    assert CATALOGUE.obsolete_entries() == []


def test_every_value_and_every_tag_has_its_place():
    wrong = []
    for entry in CATALOGUE:
        for text, german in forms(entry):
            same = all(
                sorted(set(what.findall(text))) == sorted(set(what.findall(german))) for what in (VALUES, MARKUP)
            )
            ends = (text[:1].isspace(), text[-1:].isspace()) == (german[:1].isspace(), german[-1:].isspace())
            if not (same and ends):
                wrong.append((text, german))
    assert wrong == []


def test_the_compiled_catalogue_is_the_one_that_is_read():
    """Made by `manage.py compilemessages`, and committed: a fresh machine has no gettext."""

    def all_of(catalogue: polib.POFile | polib.MOFile) -> dict:
        return {(entry.msgctxt, entry.msgid): forms(entry) for entry in catalogue}

    assert all_of(polib.mofile(str(FOLDER / "django.mo"))) == all_of(CATALOGUE)


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="GNU gettext is not installed; .ci/run installs it")
@pytest.mark.skipif(connection.vendor != "sqlite", reason="nothing of a database: once is enough")
def test_a_text_that_is_not_in_the_catalogue_is_told_and_nothing_is_written(tmp_path):
    """`.ci/run` asks the same of the tree as it is."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "templates/new.html").write_text('{% load i18n %}{% translate "Nobody has translated this" %}')
    before = (tmp_path / "locale/de/LC_MESSAGES/django.po").read_bytes()
    command = [sys.executable, "manage.py", "makemessages", "--locale", "de", "--check"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1
    assert "locale/de/LC_MESSAGES/django.po" in ended.stderr
    assert (tmp_path / "locale/de/LC_MESSAGES/django.po").read_bytes() == before
    assert not (tmp_path / "_collected_texts.py").exists()


def test_sentences_are_found_where_they_are_made():
    source = '''
        """No sentence of this module."""
        def pause(job, n):
            _log.warning("This one is only logged.")
            raise Conflict(f"{n} run{'' if n == 1 else 's'} of {job.key!r} wait already.", code="some code.")
            say = _("Pages translate this themselves.")
            return "not one", "Nor.this", f"{job}: {n}."
    '''.replace("\n        ", "\n")
    assert sentences_of(source) == {"{n} run of {key} wait already.", "{n} runs of {key} wait already."}
    assert is_sentence("There is no job {job_key}.")
    assert not is_sentence("{field}: {message}.")


@pytest.mark.parametrize(
    ("sentence", "german"),
    [
        ("There is no such edit.", "Eine solche Änderung gibt es nicht."),
        ("There is no job 'a {b} c'.", "Es gibt keinen Job 'a {b} c'."),
        ("The job 'There is no job' is deleted.", "Der Job 'There is no job' ist gelöscht."),
        ("Whatever somebody wrote.", "Whatever somebody wrote."),
        ("", ""),
        ("There is no job " * 5000, "There is no job " * 5000),
    ],
)
def test_a_sentence_of_a_service_is_read_in_german(sentence: str, german: str):
    assert said(sentence) == sentence
    with translation.override("de"):
        assert said(sentence) == german


def test_a_sentence_is_told_by_most_of_its_own_text():
    """Of two that fit the one with more text of its own, so that a value is not taken for a sentence."""
    with translation.override("de"):
        german = "Ein Zeitplan braucht eines von x; so bliebe ihm keines."
        assert said("A schedule needs one of x; this leaves it none.") == german


def test_plain_words_of_a_schedule_are_german_where_a_page_asks():
    with translation.override("de"):
        assert (
            say("{clock} on {days}", clock=say("at {times}", times="02:00"), days=say("Monday")) == "um 02:00, Montag"
        )
    assert say("at {times}", times="02:00") == english("at {times}", times="02:00") == "at 02:00"
