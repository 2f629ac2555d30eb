"""Settings: where they come from, what is refused, and that their page is in step."""

from pathlib import Path

import pytest

from tests import docs_settings
from turnlog.domain.errors import Misconfigured
from turnlog.infra.settings import Settings, load_settings, unknown_variables


def test_without_anything_set_turnlog_is_local_embedded_and_limited() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.rate_limit) == ("127.0.0.1", 18790, 3000)
    assert (settings.database_url, settings.kafka_bootstrap_servers, settings.access_token) == (None, None, None)
    assert settings.data_dir.is_absolute()


def test_a_flag_goes_over_the_variable_and_the_variable_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_PORT", "1000")
    monkeypatch.setenv("TURNLOG_RATE_LIMIT", "7")
    settings = load_settings({"port": 2000, "rate_limit": None})
    assert (settings.port, settings.rate_limit) == (2000, 7)


def test_the_token_has_an_alias_which_its_own_name_goes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def token(**flags: object) -> str:
        found = load_settings(flags).access_token
        assert found is not None
        return found.get_secret_value()

    monkeypatch.setenv("STUDIO_ACCESS_TOKEN", "alias")
    assert token() == "alias"
    monkeypatch.setenv("TURNLOG_ACCESS_TOKEN", "own")
    assert token() == "own"
    assert token(access_token="flag") == "flag"


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_ALLOWED_HOSTS", "chat.example, chat.example:8443,")
    assert load_settings().allowed_hosts == ("chat.example", "chat.example:8443")


def test_a_data_directory_is_made_absolute_and_knows_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert load_settings({"data_dir": "~/here"}).data_dir == tmp_path / "here"
    assert load_settings({"data_dir": "there"}).data_dir == tmp_path / "there"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "65536"),
        ("port", "http"),
        ("rate_limit", "-1"),
        ("reads", "eventually"),
        ("lease_ms", "0"),
        ("read_wait_ms", "0"),
        ("pool_size", "1"),
        ("topic", "no spaces"),
        ("partitions", "0"),
        ("log_format", "xml"),
        ("keepalive_s", "nan"),
        ("shutdown_timeout_s", "0"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_the_variables_name(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TURNLOG_{name.upper()}", value)
    with pytest.raises(Misconfigured, match=f"^TURNLOG_{name.upper()}: "):
        load_settings()


def test_more_replicas_in_sync_than_there_are_is_refused() -> None:
    with pytest.raises(Misconfigured, match=r"^TURNLOG_MIN_INSYNC_REPLICAS must not be above"):
        load_settings({"min_insync_replicas": 2, "replication_factor": 1})


def test_neither_errors_nor_representations_show_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_ACCESS_TOKEN", "hunter2")
    monkeypatch.setenv("TURNLOG_DATABASE_URL", "postgresql://u:hunter2@h/d")
    assert "hunter2" not in repr(load_settings())
    with pytest.raises(Misconfigured) as refused:
        load_settings({"port": "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_an_empty_variable_names_no_database_and_no_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLOG_DATABASE_URL", "")
    monkeypatch.setenv("TURNLOG_KAFKA_BOOTSTRAP_SERVERS", "")
    settings = load_settings()
    assert (settings.database_url, settings.kafka_bootstrap_servers) == (None, None)


def test_a_misspelled_variable_is_found() -> None:
    environment = {"TURNLOG_PROT": "1", "TURNLOG_PORT": "1", "TURNLOG_TEST_KAFKA": "x", "TURNLOG_FAILPOINT": "x"}
    assert unknown_variables(environment) == ["TURNLOG_PROT"]


def test_every_flag_sets_a_setting() -> None:
    assert set(docs_settings.flags()) <= set(Settings.model_fields)


def test_the_page_of_settings_is_in_step() -> None:
    assert docs_settings.PAGE.read_text(encoding="utf-8") == docs_settings.page(), "run: python -m tests.docs_settings"
