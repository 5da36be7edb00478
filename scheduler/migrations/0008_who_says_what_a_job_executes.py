from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0007_groups_of_the_jobs_file")]

    operations = [
        migrations.AlterModelOptions(
            name="job",
            options={"permissions": [("exec_job", "Can say what a job executes")]},
        ),
    ]
