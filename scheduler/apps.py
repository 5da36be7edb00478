from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate


class SchedulerConfig(AppConfig):
    name = "scheduler"

    def ready(self) -> None:
        post_migrate.connect(_keep_roles)


def _keep_roles(sender: AppConfig, **_: object) -> None:
    """After the last app: only then is every permission there."""
    from runners.services.roles import ensure_roles

    if sender.name == [app.name for app in apps.get_app_configs() if app.models_module][-1]:
        ensure_roles()
