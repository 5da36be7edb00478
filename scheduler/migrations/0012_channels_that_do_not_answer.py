from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0011_alert_conditions_and_exemptions'),
    ]

    operations = [
        migrations.AddField(
            model_name='alertchannel',
            name='tried_at',
            field=models.DateTimeField(blank=True, help_text='when something was last sent over it', null=True),
        ),
        migrations.AddField(
            model_name='alertchannel',
            name='failures',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='attempts without an answer, one after the other'),
        ),
        migrations.AddField(
            model_name='alertchannel',
            name='closed_until',
            field=models.DateTimeField(blank=True, help_text='not tried before, and then by one sender', null=True),
        ),
        migrations.AddField(
            model_name='alertchannel',
            name='error',
            field=models.CharField(blank=True, db_default='', default='', help_text='of the last attempt without an answer', max_length=500),
        ),
        migrations.AddConstraint(
            model_name='alertchannel',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('closed_until__isnull', True), ('failures', 0)), models.Q(('closed_until__isnull', False), ('failures__gt', 0)), _connector='OR'), name='alert_channel_closed_while_it_fails'),
        ),
        migrations.RemoveIndex(
            model_name='alert',
            name='alert_to_send',
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(condition=models.Q(('next_at__isnull', False)), fields=['channel', 'next_at'], name='alert_to_send'),
        ),
    ]
