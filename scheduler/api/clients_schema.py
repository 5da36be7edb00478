"""The shapes of API clients and keys, for the OpenAPI document."""

from __future__ import annotations

from rest_framework import serializers

from runners.domain.roles import ROLES
from scheduler.api.schema import at, number, optional_text, period, text, texts


class ApiClientAnswer(serializers.Serializer):
    id = number()
    name = text()
    tenant = optional_text(help_text="null: it serves and sees all tenants.")
    scopes = texts()
    is_active = serializers.BooleanField()
    managed_by = serializers.ChoiceField(
        ["", "environment"], help_text="environment: it is declared by variables, and a write to it is 409."
    )
    created_at = at()


class ApiClientBody(serializers.Serializer):
    name = text(max_length=255)
    tenant = optional_text(required=False, help_text="Only when it is made.")
    scopes = texts()
    is_active = serializers.BooleanField(required=False)


class ApiKeyAnswer(serializers.Serializer):
    id = number()
    client_id = number()
    client = text()
    prefix = text()
    created_at = at()
    expires_at = at(allow_null=True)
    revoked_at = at(allow_null=True)
    last_used_at = at(allow_null=True)


class NewApiKeyAnswer(ApiKeyAnswer):
    key = text(help_text="The key itself, shown this once.")


class ApiKeyBody(serializers.Serializer):
    client_id = number()
    expires_in = period(required=False, allow_null=True)


class UserAnswer(serializers.Serializer):
    id = number()
    username = text()
    roles = serializers.ListField(child=serializers.ChoiceField(list(ROLES)))
    is_active = serializers.BooleanField()
    is_superuser = serializers.BooleanField()
    has_password = serializers.BooleanField(help_text="false: he signs in by the OpenID provider alone.")
    has_second_factor = serializers.BooleanField()
    last_login_at = at(allow_null=True)
    created_at = at()


class NewPasswordAnswer(UserAnswer):
    password = text(help_text="The password itself, shown this once.")


class NewUserBody(serializers.Serializer):
    username = text(max_length=150)
    roles = serializers.ListField(child=serializers.ChoiceField(list(ROLES)), required=False)


class UserBody(serializers.Serializer):
    roles = serializers.ListField(child=serializers.ChoiceField(list(ROLES)), required=False)
    is_active = serializers.BooleanField(required=False)


class RotateBody(serializers.Serializer):
    grace = period(required=False, allow_null=True)
