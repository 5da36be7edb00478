from django.db import migrations, models


def of_keys_that_end(apps, schema_editor):
    for key in apps.get_model("runners", "ApiKey").objects.filter(expires_at__isnull=False):
        key.lives_for = key.expires_at - key.created_at
        key.save(update_fields=["lives_for"])


class Migration(migrations.Migration):
    dependencies = [("runners", "0002_names_of_clients")]
    operations = [
        migrations.AddField(
            model_name="apikey",
            name="lives_for",
            field=models.DurationField(
                blank=True,
                null=True,
                help_text="what it was made for, whatever a rotation left of it; null: for good",
            ),
        ),
        migrations.RunPython(of_keys_that_end, migrations.RunPython.noop),
    ]
