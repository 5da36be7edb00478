from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0004_entries_trust_their_run"),
    ]

    operations = [
        migrations.AlterModelOptions(name="maintenance", options={"verbose_name_plural": "maintenance"}),
        migrations.AlterModelOptions(name="queueentry", options={"verbose_name_plural": "queue entries"}),
    ]
