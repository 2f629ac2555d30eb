"""The command `python -m tests.kafka_local`."""

import argparse
import sys

from tests.kafka_local import detached
from tests.kafka_local.installation import prepare
from tests.kafka_local.jars import KafkaUnavailableError, cache_directory, kafka_version

DESCRIPTION = "A single-node Apache Kafka (KRaft) on 127.0.0.1, without Docker. Needs Java 17 and, at first, Maven."
EXAMPLE = """example:
  python -m tests.kafka_local start --port 9092
  TURNLOG_TEST_KAFKA=127.0.0.1:9092 pytest tests
  python -m tests.kafka_local stop

Progress goes to the error output; the last line that `start` and `status` print is the bootstrap address alone.
The data lies in a temporary directory, which `stop` removes. Jars are cached in TURNLOG_KAFKA_CACHE (.cache/kafka)."""


def say(line: str) -> None:
    """One line of progress."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def tell(line: str) -> None:
    """One line of the answer."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def start(port: int | None) -> int:
    """Start the broker unless it runs."""
    running = detached.current()
    if running is None:
        running = detached.start(port, say)
    elif port is not None and not running.bootstrap.endswith(f":{port}"):
        say(f"A broker is running on {running.bootstrap} already: stop it first to use port {port}")
        return 1
    else:
        say("It is running already")
    tell(running.bootstrap)
    return 0


def stop() -> int:
    """Stop the broker if it runs."""
    running = detached.current()
    if running is None:
        say("No broker is running")
    else:
        detached.stop(running)
        say(f"Stopped the broker on {running.bootstrap}")
    return 0


def status() -> int:
    """Tell where the broker is; exit code 3 (as `systemctl status` has it) if there is none."""
    running = detached.current()
    if running is None:
        say("No broker is running")
        return 3
    say(f"Apache Kafka {kafka_version()}, process {running.pid}, data in {running.home}")
    tell(running.bootstrap)
    return 0


def main() -> int:
    """Run one subcommand; its exit code."""
    parser = argparse.ArgumentParser(
        "python -m tests.kafka_local",
        description=DESCRIPTION,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("start", help="start it, wait until it serves, print its address")
    starting.add_argument("--port", type=int, help="TCP port (default: a free one)")
    commands.add_parser("stop", help="stop it and remove its data")
    commands.add_parser("status", help="print its address; exit code 3 if it isn't running")
    commands.add_parser("fetch", help="only fetch the jars into the cache")
    asked = parser.parse_args()
    try:
        if asked.command == "start":
            return start(asked.port)
        if asked.command == "stop":
            return stop()
        if asked.command == "status":
            return status()
        prepare(say)
        say(f"Apache Kafka {kafka_version()} is ready in {cache_directory()}")
    except (KafkaUnavailableError, RuntimeError) as failure:
        say(str(failure))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
