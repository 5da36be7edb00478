from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("calendars", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="calendar",
            name="managed_by",
            field=models.CharField(default="api", db_default="api", help_text="api or file", max_length=32),
        ),
    ]
