from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0006_letters_by_error_and_what_was_missed")]

    operations = [
        migrations.AddField(
            model_name="concurrencygroup",
            name="managed_by",
            field=models.CharField(default="api", db_default="api", help_text="api or file", max_length=32),
        ),
    ]
