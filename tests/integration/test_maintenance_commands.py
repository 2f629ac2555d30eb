"""`turnlog verify` and `turnlog rebuild` as people run them: beside a server, alone, on a directory in use."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import asyncpg
import httpx
import pytest

from tests.integration.erasing import CANARY, files_holding
from tests.integration.projecting import until
from tests.postgres_server import temporary_data_dir
from tests.turnlog_process import TurnlogProcess

pytestmark = pytest.mark.timeout(300)

K = "agent:a1:native"


class Installed:
    """A turnlog with the embedded default in a directory of its own."""

    def __init__(self, data_dir: Path, logs: Path) -> None:
        self.data_dir = data_dir
        self._logs = logs
        self.server = TurnlogProcess({"data_dir": str(data_dir)}, logs / "serve.log")

    async def run(self, command: str, **settings: str) -> tuple[int, str]:
        """Run a command to its end: its exit status, and what it said."""
        log_file = self._logs / f"{command}-{len(list(self._logs.iterdir()))}.log"
        process = TurnlogProcess({"data_dir": str(self.data_dir), **settings}, log_file, command=command)
        await process.launch()
        return await process.finished(), process.output()


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installed]:
    with temporary_data_dir() as data_dir:
        installation = Installed(data_dir, tmp_path)
        await installation.server.start()
        try:
            yield installation
        finally:
            await installation.server.kill()
            await until(lambda: _ended(data_dir))


async def _ended(data_dir: Path) -> bool:
    return not (data_dir / "postgres" / "data" / "postmaster.pid").exists()


async def save(client: httpx.AsyncClient, entry_id: str, text: str, key: str = K) -> None:
    entry = {
        "entryId": entry_id, "role": "user", "kind": "user", "text": text, "sessionKey": key, "runId": None,
        "source": "local-send", "timestampMs": 1, "sequenceKey": 1, "confirmed": True, "fingerprint": "f",
    }  # fmt: skip
    answer = await client.post("/api/chat-history", json={"sessionKey": key, "entries": [entry]})
    assert answer.status_code == 200, answer.text


async def page(client: httpx.AsyncClient, key: str = K) -> list[str]:
    answer = await client.get("/api/chat-history", params={"sessionKey": key})
    assert answer.status_code == 200, answer.text
    return [entry["entryId"] for entry in answer.json()["entries"]]


async def test_beside_a_running_server_both_are_refused_with_advice_that_works(installed: Installed) -> None:
    async with httpx.AsyncClient(base_url=installed.server.url) as client:
        for number in range(5):
            await save(client, f"e{number}", "hello")
        for command in ("verify", "rebuild"):
            status, said = await installed.run(command)
            assert status == 1
            assert "in use by another turnlog process" in said
            assert "stop that one" in said
        found = re.search(r"--database-url '(postgresql://[^']+)'", said)
        assert found is not None, said
        url = found[1]

        status, said = await installed.run("verify", database_url=url)
        assert status == 0, said
        assert "transcript_entries: equal, 5 rows, refolded 5" in said
        status, said = await installed.run("rebuild", database_url=url)
        assert status == 0, said
        assert "generation 2 of the tables is live" in said

        await save(client, "e5", "after the flip")
        assert await page(client) == [f"e{number}" for number in range(6)]
        status, said = await installed.run("verify", database_url=url)
        assert status == 0, said
        assert "transcript_entries: equal, 6 rows" in said

        connection = await asyncpg.connect(url)
        await connection.execute("UPDATE turnlog_g2.sessions SET context_floor = 5")
        await connection.close()
        status, said = await installed.run("verify", database_url=url)
        assert status == 1
        assert "sessions: DIFFERS, 1 rows, refolded 1" in said
        status, said = await installed.run("rebuild", database_url=url)
        assert status == 0, said
        assert (await installed.run("verify", database_url=url))[0] == 0
        assert await page(client) == [f"e{number}" for number in range(6)]


async def test_with_the_server_stopped_both_work_on_the_directory_alone(installed: Installed) -> None:
    async with httpx.AsyncClient(base_url=installed.server.url) as client:
        for number in range(3):
            await save(client, f"e{number}", "hello")
        assert await page(client) == ["e0", "e1", "e2"]
        assert await installed.server.stop() == 0
        for command in ("verify", "rebuild", "verify", "rebuild"):
            status, said = await installed.run(command)
            assert status == 0, said
        await installed.server.start()
        assert await page(client) == ["e0", "e1", "e2"]


async def test_after_a_delete_over_http_no_file_of_the_data_directory_holds_the_canary(installed: Installed) -> None:
    directory = installed.data_dir

    async def gone() -> bool:
        return not await anyio.to_thread.run_sync(files_holding, directory, CANARY.encode())

    async with httpx.AsyncClient(base_url=installed.server.url) as client:
        await save(client, "e1", CANARY)
        await save(client, "e1", "kept", key="agent:b1:native")
        assert not await gone()
        answer = await client.delete("/api/chat-history", params={"sessionKey": K})
        assert answer.status_code == 200, answer.text
        assert await page(client) == []
        await until(gone, seconds=60)
        assert await page(client, "agent:b1:native") == ["e1"]
