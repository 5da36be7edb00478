"""Tenants and scopes: nothing foreign is found, changed or shown; nothing is open but what the page of scopes says."""

from __future__ import annotations

from tests.mutations.record import Mutation

TENANTS = "tests/scheduler/api/test_tenants.py::"
MATRIX = "tests/scheduler/api/test_scope_matrix.py::"

RECORDS = [
    Mutation(
        name="metrics-are-of-all-tenants",
        mechanism="A key of one tenant does not read the metrics, whose series name everybody's jobs.",
        file="scheduler/api/views/site.py",
        old="if request.user.tenant is not None:",
        new="if False:",
        red=[f"{TENANTS}test_no_look_shows_what_is_another_tenants"],
    ),
    Mutation(
        name="takeovers-are-told-to-their-tenant",
        mechanism="What happens to a runner is in the audit of its tenant.",
        file="scheduler/services/identity.py",
        old='tenant = runner.client.tenant or ""',
        new='tenant = ""',
        red=[f"{TENANTS}test_what_happens_to_a_tenants_runner_is_in_its_audit_and_in_no_others"],
    ),
    Mutation(
        name="audit-is-its-tenants",
        mechanism="A key of one tenant reads the events of that tenant alone.",
        file="runners/queries/audit.py",
        old='for column in ("tenant", "actor_type",',
        new='for column in ("actor_type",',
        red=[
            f"{TENANTS}test_no_look_shows_what_is_another_tenants",
            f"{TENANTS}test_no_filter_brings_it_to_light",
        ],
    ),
    Mutation(
        name="runs-in-a-path-are-their-tenants",
        mechanism="A run of another tenant is as good as none, to whatever call.",
        file="scheduler/api/views/executions.py",
        old="if tenant is None or not view.principal.sees(tenant):",
        new="if tenant is None:",
        red=[f"{TENANTS}test_each_call_with_an_id_of_another_tenant_is_404_and_changes_nothing"],
    ),
    Mutation(
        name="jobs-of-a-body-are-their-tenants",
        mechanism="A job that a body names is looked for within the caller's tenant.",
        file="scheduler/services/jobs.py",
        old="if job is not None and principal is not None and not principal.sees(job.tenant):",
        new="if False:",
        red=[f"{TENANTS}test_no_body_reaches_what_is_another_tenants"],
    ),
    Mutation(
        name="letters-of-a-body-are-their-tenants",
        mechanism="Letters that a bulk names are those of the caller's tenant.",
        file="scheduler/services/letters.py",
        old="else letters.filter(job__tenant=principal.tenant)",
        new="else letters",
        red=[f"{TENANTS}test_no_body_reaches_what_is_another_tenants"],
    ),
    Mutation(
        name="calls-have-the-scope-of-their-page",
        mechanism="A call is open to the scope that docs/scopes.md names, and to no other.",
        file="scheduler/api/views/history.py",
        old='class RevertJob(ApiView):\n    required_scope = {"POST": "jobs:write"}',
        new='class RevertJob(ApiView):\n    required_scope = {"POST": "jobs:read"}',
        red=[
            f"{MATRIX}test_every_call_is_open_to_its_scope_and_to_admin_and_to_no_other",
            f"{MATRIX}test_a_call_that_changes_something_is_let_through_with_its_scope_alone",
            "tests/architecture/test_scopes.py::test_the_table_of_scopes_is_what_the_views_demand",
        ],
    ),
    Mutation(
        name="work-needs-its-scope",
        mechanism="The server's own way to the work protocol asks for the scope of each call.",
        file="scheduler/api/work/ack.py",
        old='header(scope, b"authorization"), "work:ack")',
        new='header(scope, b"authorization"), "work:poll")',
        red=[f"{MATRIX}test_the_work_protocol_of_the_server_is_open_to_its_scopes_and_to_no_other"],
    ),
]
