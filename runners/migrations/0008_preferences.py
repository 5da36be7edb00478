import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runners", "0007_drained_runners"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Preferences",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="preferences",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "time_zone",
                    models.CharField(
                        blank=True, help_text="in which instants are shown; empty: the browser's", max_length=64
                    ),
                ),
            ],
            options={"verbose_name_plural": "preferences"},
        ),
    ]
