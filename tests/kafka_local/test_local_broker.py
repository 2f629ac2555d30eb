"""The local broker keeps records over kills, ends with its launcher, and its absence can't be overlooked."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.kafka_local.broker import LocalBroker
from tests.kafka_local.installation import prepare
from tests.kafka_local.jars import kafka_version
from tests.kafka_server import KafkaBroker

ROOT = Path(__file__).parents[2]
QUICK_COMPACTION = {"cleanup.policy": "compact", "segment.ms": "300", "max.compaction.lag.ms": "300"}
LAUNCHER = """
import sys, time, pathlib
from tests.kafka_local.broker import LocalBroker
from tests.kafka_local.installation import prepare
broker = LocalBroker(prepare(lambda line: None), pathlib.Path(sys.argv[1]))
broker.launch()
print(broker.pid, flush=True)
time.sleep(60)
"""


async def test_a_record_acknowledged_before_a_kill_is_read_after_the_restart(
    kafka_broker: KafkaBroker, kafka_topic_name: str
) -> None:
    await create_topic(kafka_broker.bootstrap, kafka_topic_name)
    async with AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap, enable_idempotence=True) as producer:
        sent = await producer.send_and_wait(kafka_topic_name, b"kept", partition=0)

    await kafka_broker.kill()
    address = kafka_broker.bootstrap
    await kafka_broker.start()

    assert kafka_broker.bootstrap == address
    assert await values(address, kafka_topic_name) == {sent.offset: b"kept"}


async def test_a_stopped_broker_starts_again_with_its_data(kafka_broker: KafkaBroker, kafka_topic_name: str) -> None:
    await create_topic(kafka_broker.bootstrap, kafka_topic_name)

    await kafka_broker.stop()
    await kafka_broker.start()

    assert await values(kafka_broker.bootstrap, kafka_topic_name) == {}


async def test_the_bytes_of_a_record_are_found_in_the_segment_files(
    kafka_broker: KafkaBroker, kafka_topic_name: str
) -> None:
    await create_topic(kafka_broker.bootstrap, kafka_topic_name)
    async with AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap) as producer:
        await producer.send_and_wait(kafka_topic_name, b"a canary", partition=0)

    assert len(kafka_broker.segments_holding(kafka_topic_name, b"a canary")) == 1
    assert kafka_broker.segments_holding(kafka_topic_name, b"another bird") == []


async def test_an_erased_record_leaves_every_segment_file_once_the_segment_has_rolled(
    kafka_broker: KafkaBroker, kafka_topic_name: str
) -> None:
    await create_topic(kafka_broker.bootstrap, kafka_topic_name, QUICK_COMPACTION)
    async with AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap, enable_idempotence=True) as producer:
        await producer.send_and_wait(kafka_topic_name, b"a canary", key=b"1/1", partition=0)
        await producer.send_and_wait(kafka_topic_name, b"stays", key=b"2/1", partition=0)
        await producer.send_and_wait(kafka_topic_name, None, key=b"1/1", partition=0)
        deadline = time.monotonic() + 30
        while kafka_broker.segments_holding(kafka_topic_name, b"a canary") and time.monotonic() < deadline:
            # A segment rolls only when something is appended to it, and the one being written is never cleaned.
            await producer.send_and_wait(kafka_topic_name, b"tick", key=b"tick/1", partition=0)
            await anyio.sleep(0.1)

    assert kafka_broker.segments_holding(kafka_topic_name, b"a canary") == []
    read = await values(kafka_broker.bootstrap, kafka_topic_name)
    assert read[1] == b"stays"
    assert b"a canary" not in read.values()


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a process with its parent")
@pytest.mark.needs_kafka
def test_a_broker_ends_when_its_launcher_is_killed(tmp_path: Path) -> None:
    launcher = subprocess.Popen(  # noqa: S603 - fixed arguments
        [
            sys.executable,
            "-c",
            LAUNCHER,
            str(tmp_path),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with launcher:
        assert launcher.stdout is not None
        broker = psutil.Process(int(launcher.stdout.readline()))
        assert broker.is_running()
        launcher.send_signal(signal.SIGKILL)
    broker.wait(timeout=10)


@pytest.mark.needs_kafka
def test_a_broker_whose_port_is_taken_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = LocalBroker(prepare(print), tmp_path, port=taken.getsockname()[1])
        try:
            broker.launch()
            with pytest.raises(RuntimeError, match="Address already in use"):
                broker.wait_until_serving()
        finally:
            broker.kill()


@pytest.mark.needs_kafka
def test_the_command_starts_tells_and_stops_a_detached_broker(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / kafka_version()).symlink_to(prepare(print).jars.parent)
    environment = os.environ | {"TURNLOG_KAFKA_CACHE": str(cache)}

    def command(name: str) -> "subprocess.CompletedProcess[str]":
        run = [sys.executable, "-m", "tests.kafka_local", name]
        return subprocess.run(  # noqa: S603 - fixed arguments
            run, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    assert command("status").returncode == 3
    started = command("start")
    try:
        assert started.returncode == 0, started.stderr
        assert command("start").stdout == started.stdout == command("status").stdout
    finally:
        stopped = command("stop")
    assert stopped.returncode == 0
    assert command("status").returncode == 3


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(("variable", "fails"), [(None, False), ("CI", True), ("TURNLOG_TEST_REQUIRE_KAFKA", True)])
def test_without_any_broker_the_last_lines_say_what_was_not_run(
    tmp_path: Path, variable: str | None, fails: bool, workers: str
) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_other(): pass\n"
        "def test_reads(kafka_bootstrap): pass\n"
        "def test_kills(kafka_broker): pass\n"
        "@pytest.mark.needs_kafka\n"
        "def test_marked(): pass\n"
    )
    ran = run_pytest_without_java(tmp_path, {variable: "1"} if variable else {}, "-n", workers)

    assert "1 passed" in ran.stdout
    last = ran.stdout[ran.stdout.index("1 passed") :].splitlines()[1:]
    assert "NOT RUN: 3 tests that need Apache Kafka" in last[0]
    assert "test_some.py: 3" in last[1]
    assert "no java command found" in "".join(last)
    assert "TURNLOG_TEST_KAFKA" in "".join(last)
    assert ("FAILED" in last[-1]) == fails
    assert ran.returncode == (1 if fails else 0), ran.stdout + ran.stderr


def test_a_run_that_needs_no_broker_does_not_look_for_one(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text("def test_other(): pass\n")

    ran = run_pytest_without_java(tmp_path, {"CI": "true"})

    assert ran.returncode == 0
    assert "NOT RUN" not in ran.stdout


def test_a_named_broker_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "def test_reads(kafka_bootstrap): assert kafka_bootstrap == 'example.test:9092'\n"
        "def test_kills(kafka_broker): pass\n"
    )

    ran = run_pytest_without_java(tmp_path, {"TURNLOG_TEST_KAFKA": "example.test:9092"})

    assert "1 passed, 1 deselected" in ran.stdout
    assert "NOT RUN: 1 tests" in ran.stdout


def run_pytest_without_java(
    directory: Path, extra: dict[str, str], *options: str
) -> "subprocess.CompletedProcess[str]":
    """Run the tests in `directory` where there is no Java, no Docker engine and no filled cache."""
    kept = {name: value for name, value in os.environ.items() if name in {"LANG", "LC_ALL", "TMPDIR"}}
    (directory / "bin").mkdir()
    environment = kept | {
        "PATH": str(directory / "bin"),
        "HOME": str(directory),
        "DOCKER_HOST": f"unix://{directory}/no.sock",
        "TURNLOG_KAFKA_CACHE": str(directory / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    arguments = [
        "-m",
        "pytest",
        "-p",
        "tests.kafka_server",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        str(directory),
    ]
    return subprocess.run(  # noqa: S603 - fixed arguments
        [sys.executable, *arguments, "--rootdir", str(directory), *options],
        cwd=directory,
        env=environment | extra,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def create_topic(bootstrap: str, name: str, configs: dict[str, str] | None = None) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1, topic_configs=configs)])
    finally:
        await admin.close()


async def values(bootstrap: str, topic: str) -> dict[int, bytes | None]:
    """Every record of the topic's one partition by offset."""
    partition = TopicPartition(topic, 0)
    found: dict[int, bytes | None] = {}
    deadline = time.monotonic() + 20
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="none") as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end and time.monotonic() < deadline:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found |= {record.offset: record.value for record in records}
    return found
