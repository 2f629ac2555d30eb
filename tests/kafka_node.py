"""A Kafka node that tests may kill and restart: what it must offer, and the way to get one on this machine."""

import gc
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from docker.errors import DockerException  # type: ignore[import-untyped]  # docker ships no types
from testcontainers.core.docker_client import DockerClient

from tests.kafka_container import ContainerNode
from tests.kafka_local.broker import LocalBroker
from tests.kafka_local.installation import prepare
from tests.kafka_local.jars import KafkaUnavailableError, Say


class Node(Protocol):
    """One broker with data of its own, which it keeps when it is killed and launched again on the same address."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, known before the launch."""

    def launch(self) -> None:
        """Start it without waiting until it serves. Call it from the main thread."""

    def running(self) -> bool:
        """Whether its process lives."""

    def serving(self) -> bool:
        """Whether it is up. Raises RuntimeError if it died instead."""

    def wait_until_serving(self) -> None:
        """Block until it serves. Raises RuntimeError if it doesn't come up."""

    def terminate(self) -> None:
        """Ask for a clean end without waiting for it."""

    def kill(self) -> None:
        """SIGKILL; it is gone when this returns."""

    def stop(self) -> None:
        """End it for good; it is gone when this returns."""

    def segments_holding(self, topic: str, content: bytes) -> list[str]:
        """The topic's segment files, in every partition and those about to go included, in which these bytes occur."""


MakeNode = Callable[[Path], Node]


def find_node_maker(say: Say) -> MakeNode:
    """How to make a node here, given a directory: in a container if a Docker engine answers, else as a local process.

    Raises KafkaUnavailableError, whose message says what is missing.
    """
    if _docker_answers():
        return lambda home: ContainerNode()
    install = prepare(say)
    return lambda home: LocalBroker(install, home)


def _docker_answers() -> bool:
    with warnings.catch_warnings():
        # A client that meets no engine leaves its socket to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        with suppress(DockerException):
            DockerClient().client.close()
            return True
        gc.collect()
    return False


def missing_message(failure: KafkaUnavailableError) -> str:
    """Why there is no node to be had, and how to get one."""
    return (
        f"No Docker engine answers, and the local broker can't run: {failure}\n"
        "To run them, do one of these: install Java 17 and Maven; start a Docker engine; or set TURNLOG_TEST_KAFKA\n"
        "to the host:port of an Apache Kafka 4 on which the tests may create topics."
    )
