"""The roles as groups of Django's with their permissions: made and kept by every `migrate`."""

from __future__ import annotations

from django.contrib.auth.models import Group, Permission

from croniq_site.kernel.database import write_transaction
from runners.domain.roles import OURS, ROLES, has_role_permission


def ensure_roles() -> None:
    """Give the groups viewer, operator and admin exactly their permissions, of those that there are by now.

    What somebody added to one of them by hand is taken away: whoever needs other rights makes another group.
    """
    permissions = {
        f"{app}.{codename}": pk
        for pk, app, codename in Permission.objects.filter(content_type__app_label__in=[*OURS, "auth"]).values_list(
            "pk", "content_type__app_label", "codename"
        )
    }
    member = Group.permissions.through
    with write_transaction():
        Group.objects.bulk_create([Group(name=role) for role in ROLES], ignore_conflicts=True)
        groups = dict(Group.objects.filter(name__in=ROLES).values_list("name", "pk"))
        wanted = {
            (groups[role], pk) for role in ROLES for name, pk in permissions.items() if has_role_permission(role, name)
        }
        rows = member.objects.filter(group_id__in=groups.values()).values_list("group_id", "permission_id")
        there = set(rows)
        for group_id, permission_id in there - wanted:
            member.objects.filter(group_id=group_id, permission_id=permission_id).delete()
        member.objects.bulk_create(
            [member(group_id=group_id, permission_id=permission_id) for group_id, permission_id in wanted - there],
            ignore_conflicts=True,
        )
