from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runners", "0004_append_only_audit")]

    operations = [
        migrations.AddField(
            model_name="apiclient",
            name="managed_by",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="who has the say in it and its keys: environment; empty: people",
                max_length=32,
            ),
        ),
    ]
