from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0005_plural_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="deadletter",
            name="fingerprint",
            field=models.CharField(blank=True, db_default="", default="", help_text="the error without what differs by run", max_length=200),
        ),
        migrations.AddField(
            model_name="deadletter",
            name="note",
            field=models.CharField(blank=True, db_default="", default="", help_text="what somebody found out about it", max_length=1000),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(fields=["fingerprint", "-created_at", "-id"], name="dead_letter_by_fingerprint"),
        ),
        migrations.AddField(
            model_name="job",
            name="missed_seen_at",
            field=models.DateTimeField(
                blank=True,
                help_text="what was recorded as missed up to then somebody has dealt with",
                null=True,
            ),
        ),
    ]
