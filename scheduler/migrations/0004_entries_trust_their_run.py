import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0003_room_to_close_runs"),
    ]

    operations = [
        migrations.AlterField(
            model_name="queueentry",
            name="job",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="entries",
                to="scheduler.job",
            ),
        ),
        migrations.AlterField(
            model_name="queueentry",
            name="lane",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="scheduler.lane",
            ),
        ),
    ]
