"""GET, PUT and DELETE /v1/resume-point."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.api import RESUME, Api, agent_key, entry, fresh, together

ENDED = "the context was ended meanwhile"


async def test_an_unknown_session_has_no_resume_point_and_epoch_0(api: Api) -> None:
    key = agent_key()
    assert (await api.resume(key)).json() == {"sessionKey": key, "resumePoint": None, "epoch": 0}


@pytest.mark.parametrize("query", ["", "?sessionKey=", "?sessionKey=a&sessionKey=b", "?sessionKey[]=a"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_one_plain_session_key_is_required(api: Api, method: str, query: str) -> None:
    answer = await api.ask(method, RESUME + query)
    assert (answer.status, answer.error()) == (400, "sessionKey required")


async def test_a_saved_point_is_read_back(api: Api) -> None:
    key = agent_key()
    before = datetime.now(UTC)
    answer = await api.put_resume({"sessionKey": key, "runtime": "codex", "resumeId": "r-é-\U0001f9e6"})
    assert (answer.status, answer.json()) == (200, {"ok": True, "epoch": 0})
    found = (await api.resume(key)).json()
    saved_at = datetime.fromisoformat(found["resumePoint"].pop("savedAt"))
    assert saved_at.utcoffset() == timedelta(0)
    assert abs(saved_at - before) < timedelta(seconds=60)
    shown = {"runtime": "codex", "resumeId": "r-é-\U0001f9e6"}
    assert found == {"sessionKey": key, "resumePoint": shown, "epoch": 0}


async def test_the_last_save_counts(api: Api) -> None:
    key = agent_key()
    for resume_id in ("one", "two", "two", "three"):
        assert (await api.save_resume(key, resume_id, epoch=0)).status == 200
    assert await api.resume_id(key) == "three"


async def test_a_delete_clears_it_and_leaves_the_messages(api: Api) -> None:
    key = agent_key()
    await api.save(key, entry(1))
    await api.save_resume(key, "resume")
    for _ in range(2):
        answer = await api.clear_resume(key)
        assert (answer.status, answer.json()) == (200, {"ok": True, "epoch": 0})
        assert await api.resume_id(key) is None
    assert await api.entries(key) == [entry(1)]
    assert await api.epoch(key) == 0


@pytest.mark.parametrize("ending", ["reset", "delete", "clear"])
async def test_a_point_saved_under_an_old_epoch_is_refused_and_changes_nothing(api: Api, ending: str) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    await api.save(key, entry(1))
    await api.save_resume(key, "before", epoch=0)
    if ending == "clear":
        await api.clear(team)
    else:
        await (api.reset(key) if ending == "reset" else api.delete(key))
    epoch = await api.epoch(key)
    assert epoch > 0
    assert await api.resume_id(key) is None
    for stale in (0, epoch - 1, epoch + 1, 2**53 - 1):
        answer = await api.save_resume(key, "stale", epoch=stale)
        if ending == "delete" and stale < epoch:
            # What began before a delete is gone (fold.md, rule 2), not merely too late.
            assert (answer.status, answer.error()) == (410, "the session was deleted meanwhile")
        else:
            assert (answer.status, answer.json()) == (409, {"error": ENDED, "epoch": epoch})
    assert await api.resume_id(key) is None
    assert (await api.save_resume(key, "current", epoch=epoch)).json() == {"ok": True, "epoch": epoch}
    assert (await api.save_resume(key, "stale", epoch=0)).status in (409, 410)
    assert await api.resume_id(key) == "current"
    assert (await api.save_resume(key, "unconditional")).status == 200
    assert await api.resume_id(key) == "unconditional"


async def test_the_epoch_only_grows(api: Api) -> None:
    team = fresh("t")
    key = f"agent:a:team:{team}"
    seen = [await api.epoch(key)]
    for _ in range(2):
        for ending in (api.reset(key), api.clear(team), api.delete(key), api.clear(team, "*")):
            await api.save(key, entry(len(seen)))
            assert (await ending).status == 200
            seen.append(await api.epoch(key))
    assert seen == sorted(set(seen))


async def test_of_saves_racing_a_reset_none_survives_it(api: Api) -> None:
    for _ in range(10):
        key = agent_key()
        *saved, _ = await together(*(api.save_resume(key, str(n), epoch=0) for n in range(4)), api.reset(key))
        assert {answer.status for answer in saved} <= {200, 409}, saved
        assert await api.resume_id(key) is None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"sessionKey": None}, "sessionKey must be a non-empty string"),
        ({"sessionKey": ""}, "sessionKey must be a non-empty string"),
        ({"sessionKey": "x" * 1025}, "sessionKey must be at most 1024 bytes"),
        ({"sessionKey": "a\x00"}, "sessionKey must not contain U+0000"),
        ({"sessionKey": "\ud800"}, "sessionKey must not contain lone surrogates"),
        ({"sessionKey": "agent:a#cleared:1"}, "sessionKey is reserved"),
        ({"runtime": 5}, "runtime must be a non-empty string"),
        ({"runtime": ""}, "runtime must be a non-empty string"),
        ({"runtime": "\x00"}, "runtime must not contain U+0000"),
        ({"runtime": "x" * 1025}, "runtime must be at most 1024 bytes"),
        ({"resumeId": None}, "resumeId must be a non-empty string"),
        ({"resumeId": ["r"]}, "resumeId must be a non-empty string"),
        ({"resumeId": "\udfff"}, "resumeId must not contain lone surrogates"),
        ({"epoch": -1}, "epoch must be an integer from 0 to 2^53-1"),
        ({"epoch": 1.5}, "epoch must be an integer from 0 to 2^53-1"),
        ({"epoch": "0"}, "epoch must be an integer from 0 to 2^53-1"),
        ({"epoch": 2**53}, "epoch must be an integer from 0 to 2^53-1"),
        ({"epoch": 10**400}, "epoch must be an integer from 0 to 2^53-1"),
        ({"epoch": True}, "epoch must be an integer from 0 to 2^53-1"),
    ],
)
async def test_a_save_that_breaks_a_rule_names_the_field(api: Api, change: dict[str, object], error: str) -> None:
    key = agent_key()
    answer = await api.put_resume({"sessionKey": key, "runtime": "codex", "resumeId": "r", **change})
    assert (answer.status, answer.error()) == (400, error)
    assert await api.resume_id(key) is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null"])
async def test_a_save_that_is_no_object_is_invalid_json(api: Api, body: bytes) -> None:
    answer = await api.put_resume(body)
    assert (answer.status, answer.error()) == (400, "invalid JSON")


async def test_a_null_epoch_is_an_absent_one(api: Api) -> None:
    key = agent_key()
    await api.reset(key)
    answer = await api.put_resume({"sessionKey": key, "runtime": "codex", "resumeId": "r", "epoch": None})
    assert answer.status == 200
    assert await api.resume_id(key) == "r"
