"""/v1/users: the people of this installation, who are of no tenant."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from croniq_site.kernel.errors import Forbidden, NotFound
from runners.api.views import ApiView
from runners.queries.people import PersonRow, person_list, person_of_id
from runners.services.people import create_person, delete_person, edit_person, renew_password
from scheduler.api import clients_schema, openapi, wire
from scheduler.api.paging import list_answer
from scheduler.api.views.api_clients import id_in_path
from scheduler.api.views.jobs import actor_of
from scheduler.domain.inputs import flag_of, name_of, names_of
from scheduler.domain.job_fields import refuse_unknown


def user_body(person: PersonRow) -> wire.Body:
    return {
        "id": person.id,
        "username": person.username,
        "roles": list(person.roles),
        "is_active": person.is_active,
        "is_superuser": person.is_superuser,
        "has_password": person.has_password,
        "has_second_factor": person.has_second_factor,
        "last_login_at": wire.instant(person.last_login),
        "created_at": wire.instant(person.created_at),
    }


class PeopleView(ApiView):
    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if self.principal.tenant is not None:
            raise Forbidden(f"People are of all tenants; this key is of the tenant {self.principal.tenant!r}.")

    def body_of(self, user_id: int) -> wire.Body:
        person = person_of_id(user_id)
        if person is None:
            raise NotFound("There is no such user.")
        return user_body(person)


class Users(PeopleView):
    required_scope = {"GET": "admin", "POST": "admin"}

    @openapi.documented(
        "listUsers",
        "The people who may sign in, by name.",
        {200: openapi.listed(clients_schema.UserAnswer)},
        parameters=[*openapi.PAGING],
        refuses=(400,),
    )
    def get(self, request: Request) -> Response:
        return list_answer(
            request,
            lambda limit, after: person_list(limit=limit, after=after[0] if after else ""),
            body=user_body,
            key=lambda person: (person.username,),
            key_parts=(str,),
        )

    @openapi.documented(
        "createUser",
        "Make a user with these roles. His first password is in this answer and never again.",
        {201: clients_schema.NewPasswordAnswer},
        body=clients_schema.NewUserBody,
        refuses=(400, 409, 413),
    )
    def post(self, request: Request) -> Response:
        refuse_unknown(self.body, {"username", "roles"})
        username = name_of("username", self.body.get("username"))
        roles = names_of("roles", self.body.get("roles", []))
        user, password = create_person(username, self.now, roles=roles, actor=actor_of(self))
        return Response({**self.body_of(user.pk), "password": password}, status=201)


class OneUser(PeopleView):
    required_scope = {"GET": "admin", "PUT": "admin", "DELETE": "admin"}

    @openapi.documented("getUser", "One user.", {200: clients_schema.UserAnswer}, refuses=(404,))
    def get(self, request: Request, user_id: str) -> Response:
        return Response(self.body_of(id_in_path(user_id, "user")))

    @openapi.documented(
        "editUser",
        "Change what a user may do, or whether he may sign in. What is not named stays. The last active administrator "
        "stays one: 409 last_admin.",
        {200: clients_schema.UserAnswer},
        body=clients_schema.UserBody,
        refuses=(400, 404, 409, 413),
    )
    def put(self, request: Request, user_id: str) -> Response:
        refuse_unknown(self.body, {"roles", "is_active"})
        readers = {"roles": names_of, "is_active": flag_of}
        values = {field: readers[field](field, self.body[field]) for field in readers if field in self.body}
        user = edit_person(id_in_path(user_id, "user"), self.now, **values, actor=actor_of(self))
        return Response(self.body_of(user.pk))

    @openapi.documented(
        "deleteUser",
        "Delete a user. What the audit says of him stays.",
        {204: None},
        refuses=(404, 409),
    )
    def delete(self, request: Request, user_id: str) -> Response:
        delete_person(id_in_path(user_id, "user"), self.now, actor=actor_of(self))
        return Response(status=204)


class UserPassword(PeopleView):
    required_scope = {"POST": "admin"}

    @openapi.documented(
        "renewUserPassword",
        "Give a user another password. It is in this answer and never again, and ends all his sessions.",
        {200: clients_schema.NewPasswordAnswer},
        refuses=(400, 404, 413),
    )
    def post(self, request: Request, user_id: str) -> Response:
        refuse_unknown(self.body, set())
        user, password = renew_password(id_in_path(user_id, "user"), self.now, actor=actor_of(self))
        return Response({**self.body_of(user.pk), "password": password})
