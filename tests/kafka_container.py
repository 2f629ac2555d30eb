"""The official Apache Kafka image as a test node, for machines where a Docker engine answers."""

import shlex
import socket
import time

from docker.models.containers import Container  # type: ignore[import-untyped]  # docker ships no types
from testcontainers.core.container import DockerContainer

from tests.kafka_local.broker import START_SECONDS, free_ports
from tests.kafka_local.jars import kafka_version
from tests.kafka_local.settings import SHARED

_DATA = "/tmp/kafka-data"  # noqa: S108 - inside the container


class ContainerNode:
    """A container of `apache/kafka`, bound to a host port chosen in advance so that restarts keep its address.

    The reaper container of testcontainers removes it should the test session be killed.
    """

    def __init__(self) -> None:
        self._container = DockerContainer(f"apache/kafka:{kafka_version()}")
        self._host = self._container.get_docker_client().host()
        (self._port,) = free_ports(1)
        settings = SHARED | {
            "listeners": f"PLAINTEXT://:{self._port},CONTROLLER://localhost:9093",
            "advertised.listeners": f"PLAINTEXT://{self._host}:{self._port}",
            "controller.quorum.voters": "1@localhost:9093",
            "log.dirs": _DATA,
        }
        # The image turns KAFKA_LOG_DIRS into log.dirs, and formats the storage unless it is formatted already.
        self._container.with_envs(
            **{f"KAFKA_{name.upper().replace('.', '_')}": text for name, text in settings.items()}
        )
        self._container.with_env("KAFKA_HEAP_OPTS", "-Xms64m -Xmx512m")
        self._container.with_bind_ports(self._port, self._port)
        self._launched = False

    @property
    def bootstrap(self) -> str:
        """`host:port`, the same after a restart."""
        return f"{self._host}:{self._port}"

    def launch(self) -> None:
        """Create and start the container, or start the one that was killed."""
        if self._launched:
            self._engine_container().start()
        else:
            self._container.start()
            self._launched = True
        self._launch_time = time.time()

    def running(self) -> bool:
        """Whether the container runs."""
        if not self._launched:
            return False
        container = self._engine_container()
        container.reload()
        return bool(container.status == "running")

    def serving(self) -> bool:
        """Whether it logged that it started and its port is open. Raises RuntimeError if it ended instead."""
        log = bytes(self._engine_container().logs(since=self._launch_time))
        if not self.running():
            raise RuntimeError(f"the Kafka container ended:\n{log[-2000:].decode(errors='replace')}")
        if b"Kafka Server started" not in log:
            return False
        with socket.socket() as probe:
            return probe.connect_ex((self._host, self._port)) == 0

    def wait_until_serving(self) -> None:
        """Block until it serves. Raises RuntimeError if it doesn't within a minute."""
        until = time.monotonic() + START_SECONDS
        while not self.serving():
            if time.monotonic() > until:
                raise RuntimeError(f"the Kafka container is not up after {START_SECONDS} s")
            time.sleep(0.2)

    def terminate(self) -> None:
        """SIGTERM to the broker, without waiting."""
        self._engine_container().kill("SIGTERM")

    def kill(self) -> None:
        """SIGKILL to the broker, and wait until it is gone."""
        if self.running():
            self._engine_container().kill()
            self._engine_container().wait()

    def stop(self) -> None:
        """Remove the container and its data."""
        self._container.stop()

    def segments_holding(self, topic: str, content: bytes) -> list[str]:
        """The topic's segment files, those about to go included, in which these bytes occur."""
        search = f"grep -lF -e {shlex.quote(content.decode())} {_DATA}/{shlex.quote(topic)}-[0-9]*/*.log*"
        found = self._engine_container().exec_run(["sh", "-c", search])
        if found.exit_code > 1:  # 1: nothing found
            raise RuntimeError(f"could not search the segments: {found.output.decode(errors='replace')}")
        return sorted(found.output.decode().split())

    def _engine_container(self) -> Container:
        return self._container.get_wrapped_container()
