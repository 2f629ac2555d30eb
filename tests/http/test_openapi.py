"""The document describes every route, and every route is guarded."""

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Route

from tests.http.running import running
from tests.http.stand_ins import Commands, Tables, parts
from turnlog.services.http.app import create_app
from turnlog.services.http.options import HttpOptions

UNDESCRIBED = {"/", "/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"}
OPEN = {"/healthz", "/readyz"}
TOKEN = "right"


async def _ready() -> tuple[bool, dict[str, Any]]:
    return True, {}


tables = Tables()
app = create_app(parts(Commands(), tables, _ready))


def routes_of(application: FastAPI) -> Iterator[tuple[str, str]]:
    """Path and method of every route, included routers too."""
    for context in iter_route_contexts(application.routes):
        route = context.original_route
        assert isinstance(route, Route)
        yield from ((route.path_format, method.lower()) for method in (route.methods or set()) - {"HEAD"})


ROUTES = sorted(set(routes_of(app)))
DOCUMENT = app.openapi()


def test_every_route_is_in_the_document_and_nothing_else() -> None:
    described = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == {(path, method) for path, method in ROUTES if path not in UNDESCRIBED}
    assert len(described) >= 15


@pytest.mark.parametrize(("path", "method"), [route for route in ROUTES if route[0] not in UNDESCRIBED])
def test_every_operation_is_described(path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]
    assert operation["summary"]
    assert operation["operationId"]
    names = {parameter["name"] for parameter in operation.get("parameters", [])}
    assert {name.strip("{}") for name in path.split("/") if name.startswith("{")} <= names
    statuses = set(operation["responses"])
    assert "200" in statuses
    assert all(answer["description"] for answer in operation["responses"].values())
    if path not in OPEN:
        assert {"401", "403", "429", "500"} <= statuses
        assert operation["security"] == [{"bearer": []}, {"cookie": []}, {}]
    if path not in OPEN and method == "get":
        assert "Turnlog-After" in names
    if "Turnlog-Position" in operation["responses"]["200"].get("headers", {}):
        assert "Idempotency-Key" in names


def test_every_reference_in_the_document_leads_somewhere() -> None:
    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    schemas = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert set(references(DOCUMENT)) <= schemas
    assert set(references(DOCUMENT))


def test_operation_ids_are_unique() -> None:
    ids = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert len(ids) == len(set(ids))


async def test_no_route_but_the_probes_answers_without_the_token() -> None:
    """Every route with every kind of credential; a path that isn't a route is guarded as well."""
    credentials: list[tuple[dict[str, str], bool]] = [
        ({}, False),
        ({"cookie": "clawboo_access="}, False),
        ({"cookie": "clawboo_access=wrong"}, False),
        ({"cookie": f"other={TOKEN}"}, False),
        ({"authorization": "Bearer"}, False),
        ({"authorization": "Bearer wrong"}, False),
        ({"authorization": f"Basic {TOKEN}"}, False),
        ({"authorization": f"Bearer {TOKEN}"}, True),
        ({"cookie": f"clawboo_access={TOKEN}"}, True),
    ]
    options = HttpOptions(port=0, rate_limit=0, access_token=TOKEN, wrong_token_limit=10_000)
    async with running(options) as server:
        for path, method in [*ROUTES, ("/nope", "get"), ("/api/nope", "post"), ("//api/chat-history", "get")]:
            target = path.replace("{id}", "t")
            for headers, right in credentials:
                # HEAD answers as GET does, and doesn't hold a stream open.
                answer = await server.ask("HEAD" if method == "get" else method.upper(), target, given=headers)
                assert (answer.status == 401) == (not right and path not in OPEN), (method, path, headers)
                assert answer.status < 500, (method, path, headers)
