"""The tests about the code itself: what they hold, undone where it would be undone."""

from tests.mutations.record import Edit, Mutation

HERE = "tests/architecture/"

RECORDS = [
    Mutation(
        name="architecture-direction",
        mechanism="Imports point downwards only: no runners' code imports the scheduler.",
        file="runners/queries/principals.py",
        old="from runners.models import ",
        new="import scheduler.apps  # noqa: F401\nfrom runners.models import ",
        red=[HERE + "test_imports.py::test_the_contracts_hold"],
        quick=True,
    ),
    Mutation(
        name="architecture-contracts-stay",
        mechanism="The layers that import-linter checks are those of the design.",
        file="pyproject.toml",
        old='layers = ["scheduler", "calendars", "runners", "croniq_site.kernel"]',
        new='layers = ["scheduler", "croniq_site.kernel"]',
        red=[HERE + "test_imports.py::test_the_contracts_say_the_direction_without_exceptions"],
    ),
    Mutation(
        name="architecture-pure-domain",
        mechanism="The domain imports no framework.",
        file="runners/domain/scopes.py",
        old="from __future__ import annotations\n",
        new="from __future__ import annotations\n\nimport django  # noqa: F401\n",
        red=[HERE + "test_imports.py::test_the_domain_imports_no_framework_and_no_model"],
    ),
    Mutation(
        name="architecture-services-write",
        mechanism="Only services write: a query that updates a row is noticed.",
        file="runners/queries/principals.py",
        old="def raw_key_of(",
        new="def touch():\n    ApiKey.objects.update(last_used_at=None)\n\n\ndef raw_key_of(",
        red=[HERE + "test_writers.py::test_only_services_write"],
    ),
    Mutation(
        name="architecture-one-clock",
        mechanism="Only the clock module reads the clock; ruff refuses it elsewhere.",
        file="pyproject.toml",
        old='"datetime.datetime.now".msg',
        new='"datetime.datetime.nowhere".msg',
        red=[HERE + "test_lint.py::test_ruff_refuses_a_clock_outside_the_clock_module"],
    ),
    Mutation(
        name="architecture-migrations-complete",
        mechanism="A change of a model without its migration is noticed.",
        file="scheduler/models/job.py",
        old="    max_losses = models.PositiveIntegerField(default=2)",
        new="    max_losses = models.PositiveIntegerField(default=3)",
        red=[HERE + "test_models.py::test_the_migrations_are_complete"],
    ),
    Mutation(
        name="architecture-dependency-reasons",
        mechanism="Each dependency of pyproject.toml stands in docs/dependencies.md.",
        file="docs/dependencies.md",
        old="| `orjson` |",
        new="| `ujson` |",
        red=[HERE + "test_dependencies.py::test_the_page_covers_exactly_what_pyproject_asks_for"],
    ),
    Mutation(
        name="architecture-no-inline-script",
        mechanism="No page holds an inline script, which the Content-Security-Policy would refuse.",
        edits=[
            Edit(
                HERE + "test_templates.py",
                r'"inline script": re.compile(r"<script\b(?![^>]*\ssrc\s*=)", re.IGNORECASE)',
                r'"inline script": re.compile(r"<script\b(?=[^>]*\ssrc\s*=)", re.IGNORECASE)',
            )
        ],
        red=[HERE + "test_templates.py::test_each_rule_finds_its_case"],
    ),
]
