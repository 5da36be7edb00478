from django.db import migrations

WAY = "ALTER TABLE scheduler_run SET (fillfactor = {})"


def leave_room(apps, schema_editor):
    """PostgreSQL: room in each page for closing all runs of one batch that lie there. With less, a third of the updates
    move to other pages and write all four indexes of the history (benchmarks/wal.py)."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(WAY.format(55))


def as_it_was(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(WAY.format(85))


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0002_tally")]
    operations = [migrations.RunPython(leave_room, as_it_was)]
