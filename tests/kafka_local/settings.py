"""The broker's settings: those every test broker shares, and what the local one adds."""

from pathlib import Path

#: Chosen so that tests on compaction, restarts and consumer groups take seconds.
SHARED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A topic that nobody created on purpose has the wrong configuration.
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "min.insync.replicas": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker may come back only once its old session has ended (9,000 ms by default).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    # The cleaner looks for work this often, in ms, and files it has replaced go at once.
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "100",
    # 128 MiB by default, of a 512 MiB heap.
    "log.cleaner.dedupe.buffer.size": "16777216",
}


def local_properties(port: int, controller_port: int, data: Path) -> str:
    """The text of the local broker's properties file; both ports listen on the loopback address alone."""
    own = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(data),
    }
    return "".join(f"{name}={value}\n" for name, value in (SHARED | own).items())


#: A small heap and a fast start matter more here than peak throughput, so only the quick compiler runs.
JVM_OPTIONS = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    # Lists some 400 settings at every start otherwise.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config.AbstractConfig=warn",
    "-Dlog4j2.statusLoggerLevel=OFF",
)
