"""The OpenAPI document as it is committed, its links, and the page that shows it."""

from __future__ import annotations

import re

import pytest
import yaml
from django.conf import settings
from django.urls import reverse

from scheduler.api import links
from scheduler.api.reference import reference
from scheduler.api.views import site
from tests.scheduler.api.test_access import METHODS

COMMITTED = settings.BASE_DIR / "docs" / "openapi.yaml"
HOW = "python3 manage.py spectacular --file docs/openapi.yaml"


@pytest.fixture(scope="module")
def document() -> dict:
    return site.openapi_document()


def operations(document: dict) -> dict[str, dict]:
    return {each["operationId"]: each for methods in document["paths"].values() for each in methods.values()}


def test_the_committed_document_is_that_of_the_code():
    assert COMMITTED.read_bytes().decode() == site.openapi_text().decode(), f"Say: {HOW}"


def test_each_operation_says_which_scope_its_key_must_have(document):
    declared = {
        ("/" + re.sub(r"<\w+:(\w+)>", r"{\1}", route), method.lower()): view.required_scope[method]
        for route, view, method in METHODS
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scope = declared[path, method]
            said = [rule["ApiKey"] for rule in operation.get("security", []) if "ApiKey" in rule]
            assert said == ([] if scope == "public" else [[scope]]), (method, path)


def test_where_one_of_several_shapes_fits_none_of_them_fits_everything(document):
    """Of `oneOf` exactly one may fit: beside a shape without a bound no other ever does."""

    def each(part):
        yield part
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            yield from each(inner)

    chosen = [part["oneOf"] for part in each(document) if isinstance(part, dict) and "oneOf" in part]
    assert chosen
    assert not [shapes for shapes in chosen if {} in shapes]


def test_each_link_leads_to_an_operation_by_what_the_answer_has(document):
    named = operations(document)
    for (source, status), targets in links.LINKS.items():
        answer = named[source]["responses"][status]
        schema = answer["content"]["application/json"]["schema"]
        properties = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        assert set(answer["links"]) == set(targets)
        for target, parameters in targets.items():
            in_path = {each["name"] for each in named[target]["parameters"] if each["in"] == "path"}
            assert set(parameters) == in_path, (source, target)
            assert set(parameters.values()) <= set(properties), (source, target)


def test_what_a_path_takes_is_said(document):
    for path, methods in document["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "path":
                    assert len(parameter["schema"]) > 1, (path, parameter["name"])


# The page


@pytest.fixture(scope="module")
def page() -> str:
    from django.test import Client

    answer = Client().get("/v1/docs", secure=True, SERVER_NAME="localhost")
    assert answer.status_code == 200
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    return answer.content.decode()


def test_the_page_has_every_operation_parameter_and_shape(page, document):
    for name, operation in operations(document).items():
        assert f'id="{name}"' in page
        for parameter in operation.get("parameters", []):
            assert f"<dt><code>{parameter['name']}</code></dt>" in page
    for name, schema in document["components"]["schemas"].items():
        if schema.get("properties"):
            assert f'id="shape-{name}"' in page
    targets = set(re.findall(r'href="#([^"]+)"', page)) - {"main"}
    assert targets <= set(re.findall(r'id="([^"]+)"', page))


def test_the_page_loads_nothing_from_elsewhere_and_has_no_script_of_its_own(page):
    loaded = re.findall(r'(?:src|href|action)="([^"]+)"', page)
    assert [address for address in loaded if not address.startswith(("/", "#"))] == []
    assert all(" src=" in tag for tag in re.findall(r"<script[^>]*>", page))
    assert "style=" not in page


def test_the_page_says_how_to_ask(page):
    assert "curl -X POST -H &quot;Authorization: ApiKey $CRONIQ_KEY&quot;" in page or (
        'curl -X POST -H "Authorization: ApiKey $CRONIQ_KEY"' in page
    )
    assert "https://localhost/v1/jobs/{job_key}" in page
    assert "executions:cancel" in page


def test_the_page_is_asked_for_and_nothing_else(client, db):
    assert reverse("api-docs") == "/v1/docs"
    answer = client.post("/v1/docs", secure=True)
    assert (answer.status_code, answer["Allow"], answer.json()["error"]) == (405, "GET, HEAD", "method_not_allowed")
    assert client.head("/v1/docs", secure=True).status_code == 200


def test_a_reference_of_a_strange_document_is_text():
    """Whatever a schema says is escaped by the template and never followed for ever."""
    loop = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Loop"}}, "required": ["next"]}
    made = reference(
        {
            "info": {"version": "1"},
            "paths": {"/x": {"get": {"operationId": "x", "responses": {"200": {"description": "<b>"}}}}},
            "components": {"schemas": {"Loop": loop, "Empty": {"type": "object"}}},
        }
    )
    assert [shape.name for shape in made.shapes] == ["Loop"]
    assert made.shapes[0].fields[0].shape == "Loop"
    (operation,) = made.sections[0].operations
    assert (operation.method, operation.scope, operation.answers[0].says) == ("GET", "", "<b>")


def test_yaml_reads_the_committed_file():
    assert yaml.safe_load(COMMITTED.read_text())["openapi"].startswith("3.1")
