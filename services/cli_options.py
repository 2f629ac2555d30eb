"""The flags that set settings. Each is named like its setting; not given, the environment or the default counts."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Host: TypeAlias = Annotated[str | None, typer.Option(help="Address to listen on [default: 127.0.0.1]")]
Port: TypeAlias = Annotated[int | None, typer.Option(help="TCP port to listen on, 0 for a free one [default: 18790]")]
DataDir: TypeAlias = Annotated[
    Path | None, typer.Option(help="Where the embedded PostgreSQL keeps its data [default: the user data directory]")
]
DatabaseUrl: TypeAlias = Annotated[
    str | None, typer.Option(help="postgresql://… of a PostgreSQL 16 or newer [default: the embedded one]")
]
KafkaBootstrapServers: TypeAlias = Annotated[
    str | None, typer.Option(help="host:port,… of the Kafka that holds the log [default: the log is in PostgreSQL]")
]
Topic: TypeAlias = Annotated[str | None, typer.Option(help="The Kafka topic of the log [default: turnlog.events]")]
Partitions: TypeAlias = Annotated[
    int | None, typer.Option(help="Partitions that the topic has, or is created with [default: 12]")
]
ReplicationFactor: TypeAlias = Annotated[
    int | None, typer.Option(help="Replicas that the topic has at least [default: 1]")
]
MinInsyncReplicas: TypeAlias = Annotated[
    int | None, typer.Option(help="Replicas that must have a record before it is acknowledged [default: 1]")
]
AccessToken: TypeAlias = Annotated[
    str | None, typer.Option(help="Token that clients must send; TURNLOG_ACCESS_TOKEN keeps it off process lists")
]
AllowPublicBind: TypeAlias = Annotated[
    bool | None, typer.Option("--allow-public-bind", help="Listen beyond loopback without an access token")
]
RateLimit: TypeAlias = Annotated[
    int | None, typer.Option(help="Requests a minute and client, 0 for no limit [default: 3000]")
]
NoProjector: TypeAlias = Annotated[
    bool | None, typer.Option("--no-projector", help="Serve the API alone; `turnlog project` runs elsewhere")
]
LogLevel: TypeAlias = Annotated[str | None, typer.Option(help="debug, info, warning or error [default: info]")]
LogFormat: TypeAlias = Annotated[str | None, typer.Option(help="auto, json or console [default: auto]")]
