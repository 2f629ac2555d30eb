"""What is refused at start, and what an operator can allow: addresses, tokens, hosts, origins, proxies."""

import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api import PATH, Api, agent_key
from tests.postgres_server import Database
from tests.served import serving
from tests.turnlog_process import TurnlogProcess

TOKEN = "from.the-alias~1"
PROXIED = {"x_forwarded_proto": "https", "x_forwarded_for": "203.0.113.7"}


@pytest.fixture(scope="module")
async def proxied(
    postgres_server: Database, template_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Api]:
    """A server behind a proxy of its own machine, with its token under the reference's name."""
    settings = {
        "trusted_proxies": "127.0.0.1", "allowed_hosts": "chat.example,other.example:8443",
        "allowed_origins": "https://app.example", "rate_limit": "50",
    }  # fmt: skip
    directory = tmp_path_factory.mktemp("proxied")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STUDIO_ACCESS_TOKEN", TOKEN)
        async with serving(postgres_server, template_database, {}, directory, **settings) as found:
            yield found


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"host": "0.0.0.0"}, "refusing to listen on 0.0.0.0 without an access token"),  # noqa: S104 - to be refused
        ({"access_token": "schlüssel"}, "the access token may hold only the characters"),
    ],
)
async def test_what_would_be_open_is_refused_at_start(tmp_path: Path, settings: dict[str, str], told: str) -> None:
    process = TurnlogProcess({"data_dir": str(tmp_path / "never"), **settings}, tmp_path / "log")
    await process.launch()
    assert await process.finished() == 2
    assert told in process.output()
    assert not (tmp_path / "never").exists()
    for value in (settings.get("access_token"), "Traceback"):
        assert value is None or value not in process.output()


async def test_a_port_in_use_is_told_at_start(database: Database, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        process = TurnlogProcess({"database_url": database.dsn, "port": port}, tmp_path / "log")
        await process.launch()
        assert await process.finished() == 2
    assert f"can't listen on 127.0.0.1 port {port}" in process.output()


async def test_the_reference_has_its_own_name_for_the_token(proxied: Api) -> None:
    assert (await proxied.page(agent_key())).status == 401
    assert (await proxied.page(agent_key(), {"cookie": f"clawboo_access={TOKEN}"})).status == 200


async def test_behind_https_the_cookie_is_secure(proxied: Api) -> None:
    plain = await proxied.ask("GET", f"/?access_token={TOKEN}")
    assert plain.headers["set-cookie"] == f"clawboo_access={TOKEN}; HttpOnly; SameSite=Lax; Path=/"
    secure = await proxied.ask("GET", f"/?access_token={TOKEN}", given=PROXIED, host="chat.example")
    assert secure.headers["set-cookie"] == f"clawboo_access={TOKEN}; HttpOnly; SameSite=Lax; Path=/; Secure"
    untrusted = await proxied.ask("GET", f"/?access_token={TOKEN}", given=PROXIED, source="127.0.0.2")
    assert not untrusted.headers["set-cookie"].endswith("Secure")


@pytest.mark.parametrize(
    ("host", "headers", "status"),
    [
        ("chat.example", {}, 200), ("chat.example:8080", {}, 200), ("other.example:8443", {}, 200),
        ("other.example", {}, 403), ("evil.example", {}, 403),
        ("chat.example", {"origin": "https://app.example"}, 200),
        ("chat.example", {"origin": "https://app.example:444"}, 403),
        ("chat.example", {"origin": "https://chat.example", **PROXIED}, 200),
        ("chat.example", {"origin": "http://chat.example", **PROXIED}, 403),
    ],
)  # fmt: skip
async def test_hosts_and_origins_can_be_allowed(proxied: Api, host: str, headers: dict[str, str], status: int) -> None:
    given = {"cookie": f"clawboo_access={TOKEN}", **headers}
    assert (await proxied.ask("GET", f"{PATH}?sessionKey=k", given=given, host=host)).status == status


async def test_clients_behind_a_trusted_proxy_are_counted_apart(proxied: Api) -> None:
    async def left(address: str) -> int:
        given = {"cookie": f"clawboo_access={TOKEN}", "x-forwarded-for": address}
        answer = await proxied.ask("GET", f"{PATH}?sessionKey=k", given=given)
        return int(answer.headers["ratelimit-remaining"])

    assert [await left(address) for address in ("203.0.113.1", "203.0.113.1", "203.0.113.2")] == [49, 48, 49]
