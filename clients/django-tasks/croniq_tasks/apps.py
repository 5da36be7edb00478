from django.apps import AppConfig


class CroniqTasksConfig(AppConfig):
    name = "croniq_tasks"
    verbose_name = "Croniq tasks"
