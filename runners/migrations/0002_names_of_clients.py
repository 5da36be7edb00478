from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("runners", "0001_initial"),
    ]

    operations = [
        migrations.AlterModelOptions(name="apiclient", options={"verbose_name": "API client"}),
        migrations.AlterModelOptions(name="apikey", options={"verbose_name": "API key"}),
    ]
