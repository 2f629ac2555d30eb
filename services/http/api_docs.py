"""GET /openapi.json and GET /docs: the document, and a page that shows it, with assets from this package alone."""

from importlib.resources import files

import anyio
import orjson
from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from turnlog.services.http.responses import json_response

_PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>turnlog API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""

_START = b"""SwaggerUIBundle({url: "/openapi.json", dom_id: "#api", validatorUrl: null, deepLinking: true});
"""

_ASSETS = {"swagger-ui.css": "text/css; charset=utf-8", "swagger-ui-bundle.js": "text/javascript; charset=utf-8"}
_REVALIDATE = {"cache-control": "no-cache"}


async def _page(_request: Request) -> Response:
    return Response(_PAGE, media_type="text/html", headers=_REVALIDATE)


async def _start(_request: Request) -> Response:
    return Response(_START, media_type="text/javascript", headers=_REVALIDATE)


async def _home(_request: Request) -> Response:
    return RedirectResponse("/docs", 302)


def _asset(name: str, media_type: str) -> Route:
    path = anyio.Path(str(files("turnlog.services.http") / "static" / name))

    async def endpoint(_request: Request) -> Response:
        return Response(await path.read_bytes(), media_type=media_type, headers=_REVALIDATE)

    return Route(f"/docs/{name}", endpoint)


def docs_routes(app: FastAPI) -> list[Route]:
    """The document, the page and what it loads. `/` leads to the page: it is where the token link ends."""

    async def document(_request: Request) -> Response:
        return json_response(orjson.dumps(app.openapi()))

    return [
        Route("/openapi.json", document),
        Route("/docs", _page),
        Route("/docs/start.js", _start),
        *(_asset(name, media_type) for name, media_type in _ASSETS.items()),
        Route("/", _home),
    ]
