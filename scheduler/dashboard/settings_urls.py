"""The paths of runners and settings."""

from django.urls import path

from scheduler.dashboard import runner_page, runners, settings_clients, settings_site, settings_users

urlpatterns = [
    path("runners", runners.runner_list_page, name="runners"),
    path("runners/named", runner_page.named_page, name="runner-named"),
    path("runners/<int:runner_pk>", runner_page.runner_page, name="runner"),
    path("runners/<int:runner_pk>/drain", runner_page.drain, name="runner-drain"),
    path("runners/<int:runner_pk>/resume", runner_page.resume, name="runner-resume"),
    path("runners/<int:runner_pk>/release", runner_page.release, name="runner-release"),
    path("settings", settings_site.profile_page, name="settings"),
    path("settings/clients", settings_clients.clients_page, name="settings-clients"),
    path("settings/clients/<int:client_id>", settings_clients.client_page, name="settings-client"),
    path("settings/clients/<int:client_id>/key", settings_clients.new_key, name="settings-key-new"),
    path("settings/keys/<int:key_id>/rotate", settings_clients.rotate, name="settings-key-rotate"),
    path("settings/keys/<int:key_id>/revoke", settings_clients.revoke, name="settings-key-revoke"),
    path("settings/users", settings_users.users_page, name="settings-users"),
    path("settings/users/<int:user_id>", settings_users.user_page, name="settings-user"),
    path("settings/users/<int:user_id>/password", settings_users.new_password, name="settings-user-password"),
    path("settings/users/<int:user_id>/delete", settings_users.delete, name="settings-user-delete"),
    path("settings/tenants", settings_site.tenants_page, name="settings-tenants"),
    path("settings/doctor", settings_site.doctor_page, name="settings-doctor"),
]
