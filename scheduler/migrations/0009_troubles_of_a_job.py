from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0008_who_says_what_a_job_executes"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("problem__isnull", False)),
                fields=["job", "problem", "-scheduled_for", "-id"],
                name="run_by_job_and_problem",
            ),
        ),
    ]
