"""Users and groups as Django has them, searched within the same bounds as everything else."""

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User

from croniq_site.admin_audit import ToldInTheAudit
from runners.admin import BoundedSearch

admin.site.unregister([User, Group])


@admin.register(User)
class BoundedUserAdmin(ToldInTheAudit, BoundedSearch, UserAdmin):
    pass


@admin.register(Group)
class BoundedGroupAdmin(ToldInTheAudit, BoundedSearch, GroupAdmin):
    pass
