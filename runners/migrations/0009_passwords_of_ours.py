from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("runners", "0008_preferences")]

    operations = [
        migrations.AddField(
            model_name="preferences",
            name="must_change_password",
            field=models.BooleanField(
                db_default=False, default=False, help_text="somebody else made it: nothing opens before it is changed"
            ),
        ),
    ]
