"""What can be said of the Docker files without a Docker engine."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from turnlog.infra.settings import unknown_variables

ROOT = Path(__file__).parents[2]
OURS = ("migrate", "api", "projector")
KNOWN_TOP_LEVEL = {"name", "services", "volumes", "networks", "configs", "secrets", "include", "version"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def test_the_file_holds_what_compose_knows(compose: dict[str, Any]) -> None:
    assert all(name in KNOWN_TOP_LEVEL or name.startswith("x-") for name in compose)
    for name, service in compose["services"].items():
        assert "image" in service or "build" in service, name


def test_services_wait_for_each_other_by_health(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name in OURS:
        for other, how in services[name]["depends_on"].items():
            assert how["condition"] in ("service_healthy", "service_completed_successfully"), name
            if how["condition"] == "service_healthy":
                assert services[other]["healthcheck"]["test"], other
    assert services["projector"]["deploy"]["replicas"] == 2


def test_data_lies_in_named_volumes(compose: dict[str, Any]) -> None:
    used = {volume.split(":")[0] for service in compose["services"].values() for volume in service.get("volumes", ())}
    assert used == set(compose["volumes"])


def test_every_setting_is_one_that_turnlog_knows(compose: dict[str, Any]) -> None:
    for name in OURS:
        assert unknown_variables(compose["services"][name]["environment"]) == []


@pytest.mark.parametrize("service", OURS)
def test_every_command_is_one_that_turnlog_has(compose: dict[str, Any], service: str) -> None:
    command = [str(Path(sys.executable).with_name("turnlog")), *compose["services"][service]["command"], "--help"]
    helped = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert helped.returncode == 0, helped.stderr
    assert "Usage" in helped.stdout


def test_the_image_runs_without_rights_and_what_it_runs_exists() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["turnlog"]
    entry = next(line for line in lines if line.startswith("ENTRYPOINT "))
    assert shlex.split(entry.removeprefix("ENTRYPOINT ").strip("[]")) == ["turnlog"]
    copied = [line.split()[1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    assert copied == ["."]
