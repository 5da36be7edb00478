"""The audit is append-only by the database's own rule, for whoever has a connection: no UPDATE, no DELETE of what is
not older than the cut, no TRUNCATE. On SQLite a migration that makes the table anew must make the triggers anew too."""

from django.db import migrations, models

POSTGRESQL = [
    """
    CREATE FUNCTION runners_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND OLD.created_at < (SELECT max(until) FROM runners_auditcut) THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'restrict_violation';
    END $$
    """,
    """
    CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON runners_auditevent
    FOR EACH ROW EXECUTE FUNCTION runners_audit_is_append_only()
    """,
    """
    CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON runners_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION runners_audit_is_append_only()
    """,
]
SQLITE_DELETE = """
    CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON runners_auditevent
    WHEN NOT EXISTS (SELECT 1 FROM runners_auditcut WHERE until > OLD.created_at)
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """
SQLITE = [
    """
    CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON runners_auditevent
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """,
    SQLITE_DELETE,
    # INSERT OR REPLACE deletes what it replaces without the trigger above.
    """
    CREATE TRIGGER audit_is_not_replaced BEFORE INSERT ON runners_auditevent
    WHEN EXISTS (SELECT 1 FROM runners_auditevent WHERE id = NEW.id OR event_id = NEW.event_id)
    BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END
    """,
]


def guard(apps, schema_editor):
    for statement in POSTGRESQL if schema_editor.connection.vendor == "postgresql" else SQLITE:
        schema_editor.execute(statement)


def unguard(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("DROP FUNCTION runners_audit_is_append_only() CASCADE")
    else:
        for name in ("audit_is_not_changed", "audit_is_not_deleted", "audit_is_not_replaced"):
            schema_editor.execute(f"DROP TRIGGER {name}")


class Migration(migrations.Migration):
    dependencies = [("runners", "0003_lives_for")]

    operations = [
        migrations.AddField(
            model_name="auditevent",
            name="history",
            field=models.CharField(
                blank=True,
                help_text="whose definition changed, by its row, for instance job/17",
                max_length=32,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="auditevent",
            name="request_id",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="of the request that did it, if one did", max_length=64
            ),
        ),
        migrations.AlterField(
            model_name="auditevent",
            name="diff",
            field=models.JSONField(
                default=dict, help_text="field: [before, after]; whatever is no such pair explains it"
            ),
        ),
        migrations.AddIndex(
            model_name="auditevent",
            index=models.Index(
                condition=models.Q(("history__isnull", False)), fields=["history", "id"], name="audit_by_history"
            ),
        ),
        migrations.CreateModel(
            name="AuditCut",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "until",
                    models.DateTimeField(help_text="exclusive; of the events before it some or all are gone"),
                ),
            ],
        ),
        migrations.RunPython(guard, unguard),
    ]
