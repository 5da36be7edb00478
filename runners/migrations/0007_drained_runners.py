from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runners", "0006_sign_in_counts"),
    ]

    operations = [
        migrations.AddField(
            model_name="runner",
            name="drain_reason",
            field=models.CharField(blank=True, db_default="", default="", max_length=255),
        ),
        migrations.AddField(
            model_name="runner",
            name="drained_at",
            field=models.DateTimeField(
                blank=True,
                help_text="since when it finishes what it holds and takes no more; null: it takes work",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="runnerinstance",
            name="is_drained",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="its runner is: said here too, because a claim looks at this row and at no other",
            ),
        ),
    ]
