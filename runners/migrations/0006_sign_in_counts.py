from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runners", "0005_clients_of_the_environment")]

    operations = [
        migrations.CreateModel(
            name="SignInCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "key",
                    models.CharField(help_text="address:…, or account: and the digest of a name", max_length=64),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("began_at", models.DateTimeField()),
                (
                    "refused_at",
                    models.DateTimeField(blank=True, help_text="the first refusal since then", null=True),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["began_at"], name="sign_in_count_by_time")],
                "constraints": [models.UniqueConstraint(fields=("key",), name="sign_in_count_one_per_key")],
            },
        ),
    ]
