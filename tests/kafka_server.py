"""A pytest plugin: a real Apache Kafka for the tests that need one, and loud last lines if none can be had.

A test needs Kafka if it uses a fixture of this file or is marked `needs_kafka`. The broker is the one named by
`TURNLOG_TEST_KAFKA`, else a container if a Docker engine answers, else a local process (`tests/kafka_local`).
Without any, those tests are not run; with `CI` or `TURNLOG_TEST_REQUIRE_KAFKA=1` set that makes the run fail.
"""

import os
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from xdist.workermanage import WorkerController

from tests.kafka_local.jars import KafkaUnavailableError
from tests.kafka_node import MakeNode, Node, find_node_maker, missing_message

START_SECONDS = 60.0
STOP_SECONDS = 15.0

_OWN_NODE_FIXTURES = {"kafka_broker"}
_ANY_KAFKA_FIXTURES = {"kafka_bootstrap"} | _OWN_NODE_FIXTURES
_MAKER = pytest.StashKey[MakeNode]()
_NOT_RUN = pytest.StashKey[tuple[str, Counter[str]]]()
_NOT_RUN_BY_WORKER = "turnlog_not_run"


class KafkaBroker:
    """A broker of the test's own, to be killed, stopped and started again on the same data and address."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def bootstrap(self) -> str:
        """`host:port`, the same after every restart."""
        return self._node.bootstrap

    async def kill(self) -> None:
        """SIGKILL; it is gone when this returns."""
        self._node.kill()

    async def stop(self) -> None:
        """A clean end (killed if that takes longer than 15 s); it is gone when this returns."""
        if self._node.running():
            self._node.terminate()
        with anyio.move_on_after(STOP_SECONDS):
            while self._node.running():
                await anyio.sleep(0.05)
        self._node.kill()

    async def start(self) -> None:
        """Start it unless it runs, and wait until it serves (3 s; up to 8 s after a kill). Raises TimeoutError."""
        if not self._node.running():
            self._node.launch()
        with anyio.fail_after(START_SECONDS):
            while not self._node.serving():
                await anyio.sleep(0.05)

    def segments_holding(self, topic: str, content: bytes) -> list[str]:
        """The topic's segment files, in every partition and those about to go included, in which these bytes occur."""
        return self._node.segments_holding(topic, content)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "needs_kafka: runs against a real Apache Kafka; without one it is not run")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Look for a broker if a chosen test needs one; leave out those tests if there is none."""
    external = os.environ.get("TURNLOG_TEST_KAFKA")
    needy = [item for item in items if _needs(item, _OWN_NODE_FIXTURES if external else _ANY_KAFKA_FIXTURES, external)]
    if not needy or config.option.collectonly:
        return
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    try:
        config.stash[_MAKER] = find_node_maker(reporter.write_line if reporter else print)
    except KafkaUnavailableError as failure:
        config.stash[_NOT_RUN] = (missing_message(failure), Counter(item.location[0] for item in needy))
        items[:] = [item for item in items if item not in needy]
        config.hook.pytest_deselected(items=needy)


def _needs(item: pytest.Item, fixtures: set[str], external: str | None) -> bool:
    marked = item.get_closest_marker("needs_kafka") is not None and not external
    return marked or not fixtures.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Several workers will share the run: the fetching of a broker is told here, where somebody sees it."""
    if not os.environ.get("TURNLOG_TEST_KAFKA"):
        with suppress(KafkaUnavailableError):
            find_node_maker(config.pluginmanager.getplugin("terminalreporter").write_line)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """A worker has ended: what it did not run (the same in each of them) is told by the process that has a terminal."""
    told = getattr(node, "workeroutput", {}).get(_NOT_RUN_BY_WORKER)
    if told is not None:
        message, per_file = told
        node.config.stash[_NOT_RUN] = (message, Counter(per_file))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Say in the very last lines what was not run, and fail the run if it had to."""
    not_run = session.config.stash.get(_NOT_RUN, None)
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None and not_run is not None:
        # Before the yield: a worker's output is sent off inside of it.
        message, per_file = not_run
        output[_NOT_RUN_BY_WORKER] = (message, dict(per_file))
    yield
    # Again: what the workers had to tell has arrived meanwhile.
    not_run = session.config.stash.get(_NOT_RUN, None)
    if not_run is None or output is not None:
        return
    required = os.environ.get("CI") or os.environ.get("TURNLOG_TEST_REQUIRE_KAFKA") == "1"
    if required:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        message, per_file = not_run
        reporter.write_sep("!", f"NOT RUN: {per_file.total()} tests that need Apache Kafka", red=True, bold=True)
        for file, count in sorted(per_file.items()):
            reporter.write_line(f"  {file}: {count}", red=True)
        reporter.write_line(message, red=True)
        if required:
            reporter.write_line(
                "This run requires Kafka (CI or TURNLOG_TEST_REQUIRE_KAFKA is set): it FAILED.", red=True
            )


@pytest.fixture(scope="session")
def kafka_bootstrap(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of the session's broker, shared by all tests: use a topic of your own, and never stop it."""
    external = os.environ.get("TURNLOG_TEST_KAFKA")
    if external:
        yield external
        return
    node = pytestconfig.stash[_MAKER](tmp_path_factory.mktemp("kafka"))
    try:
        node.launch()
        node.wait_until_serving()
        yield node.bootstrap
    finally:
        node.stop()


@pytest.fixture
def kafka_topic_name() -> str:
    """A topic name that nothing else uses."""
    return f"turnlog-test-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def _module_node(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = pytestconfig.stash[_MAKER](Path(tmp_path_factory.mktemp("kafka-of-module")))
    try:
        node.launch()
        node.wait_until_serving()
        yield node
    finally:
        node.stop()


@pytest.fixture
async def kafka_broker(_module_node: Node) -> KafkaBroker:
    """The module's own broker, running; the test may kill it, and the next test finds it running again."""
    broker = KafkaBroker(_module_node)
    await broker.start()
    return broker
