"""/healthz, /readyz, /openapi.json and /docs."""

import re
from urllib.parse import urljoin, urlparse

from tests.api import Api


async def test_balancers_may_probe_with_head(api: Api) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await api.ask("HEAD", path)
        assert (answer.status, answer.body) == (200, b"")


async def test_healthz_says_that_the_process_is_alive(api: Api) -> None:
    answer = await api.ask("GET", "/healthz")
    assert (answer.status, answer.json()) == (200, {"ok": True})


async def test_readyz_says_why_traffic_is_welcome(api: Api) -> None:
    answer = await api.ask("GET", "/readyz")
    assert answer.status == 200
    figures = answer.json()
    assert figures["ok"] is True
    assert (figures["database"], figures["log"]) == ("reachable", "reachable")
    assert figures["partitions"] == len(figures["lag"]) >= 1
    assert max(figures["lag"]) <= figures["lagBound"]
    assert figures["stopped"] == {}
    assert figures["draining"] is False


async def test_the_document_is_openapi_and_describes_the_reference_routes(api: Api) -> None:
    answer = await api.ask("GET", "/openapi.json")
    assert answer.status == 200
    document = answer.json()
    assert document["openapi"].startswith("3.1")
    described = {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}
    assert described == {
        "GET /api/chat-history", "POST /api/chat-history", "DELETE /api/chat-history",
        "POST /api/chat-history/reset-context", "POST /api/teams/{id}/chat/clear", "GET /api/teams/{id}/chat/stream",
        "POST /api/teams/{id}/chat/delta", "POST /api/teams/{id}/chat/status", "GET /api/agents/{id}/chat/stream",
        "GET /v1/resume-point", "PUT /v1/resume-point", "DELETE /v1/resume-point", "GET /v1/sessions", "GET /healthz",
        "GET /readyz", "GET /v1/history", "PUT /v1/history", "POST /v1/turns",
    }  # fmt: skip


async def test_the_docs_page_loads_everything_from_the_server_itself(api: Api) -> None:
    page = await api.ask("GET", "/docs")
    assert (page.status, page.headers["content-type"].partition(";")[0]) == (200, "text/html")
    links = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
    assert len(links) >= 3
    for link in links:
        url = urlparse(urljoin(f"{api.process.url}/docs", link))
        assert url.netloc == api.own
        asset = await api.ask("GET", url.path)
        assert asset.status == 200
        assert asset.body
        expected = "text/css" if link.endswith(".css") else "text/javascript"
        assert asset.headers["content-type"].partition(";")[0] == expected
        if link.endswith("start.js"):
            assert b'"/openapi.json"' in asset.body
        assert not re.search(rb"""(?:@import|importScripts)[^;]{0,40}https?://""", asset.body)
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http" not in page.headers["content-security-policy"]


async def test_the_root_leads_to_the_docs(api: Api) -> None:
    answer = await api.ask("GET", "/")
    assert (answer.status, answer.headers["location"]) == (302, "/docs")
