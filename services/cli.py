"""The command `turnlog`. Nothing heavy is imported before a command runs, so that help and version are quick."""

import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

import typer

from turnlog.services import cli_options as option

if TYPE_CHECKING:
    from turnlog.infra.settings import Settings

FAILED = 1
MISCONFIGURED = 2
INTERRUPTED = 130

app = typer.Typer(
    help="An event-sourced conversation backend: chat turns as events, transcripts as projections.",
    epilog="Every flag is also a variable: --rate-limit is TURNLOG_RATE_LIMIT. Example: turnlog serve --port 8080",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
topic_app = typer.Typer(
    help="Check or create the Kafka topic that holds the log.",
    epilog="Example: turnlog topic check --kafka-bootstrap-servers kafka:9092",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(topic_app, name="topic")


@app.command()
def serve(
    host: option.Host = None,
    port: option.Port = None,
    data_dir: option.DataDir = None,
    database_url: option.DatabaseUrl = None,
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    access_token: option.AccessToken = None,
    allow_public_bind: option.AllowPublicBind = None,
    rate_limit: option.RateLimit = None,
    no_projector: option.NoProjector = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Run the HTTP API, with the projector and the eraser in the same process. SIGTERM ends it in order.

    \b
    Examples:
      turnlog serve
      turnlog serve --port 8080 --data-dir /var/lib/turnlog
      turnlog serve --kafka-bootstrap-servers kafka:9092 --database-url postgresql://turnlog@db/turnlog
    """
    _run("turnlog.services.serve:serve", locals())


@app.command()
def project(
    data_dir: option.DataDir = None,
    database_url: option.DatabaseUrl = None,
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Run a projector and an eraser alone. Several of them share the partitions.

    \b
    Example:
      turnlog project --kafka-bootstrap-servers kafka:9092 --database-url postgresql://turnlog@db/turnlog
    """
    _run("turnlog.services.serve:project", locals())


@app.command()
def rebuild(
    data_dir: option.DataDir = None,
    database_url: option.DatabaseUrl = None,
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Fold the whole log into fresh tables and switch to them. Stop the server first.

    \b
    Example:
      turnlog rebuild --data-dir /var/lib/turnlog
    """
    _run("turnlog.services.rebuild:rebuild", locals())


@app.command()
def verify(
    data_dir: option.DataDir = None,
    database_url: option.DatabaseUrl = None,
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Fold the whole log from zero and compare with the tables. Exit status 1 if they differ.

    \b
    Example:
      turnlog verify --database-url postgresql://turnlog@db/turnlog --kafka-bootstrap-servers kafka:9092
    """
    _run("turnlog.services.verify:verify", locals())


@app.command()
def migrate(
    data_dir: option.DataDir = None,
    database_url: option.DatabaseUrl = None,
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    replication_factor: option.ReplicationFactor = None,
    min_insync_replicas: option.MinInsyncReplicas = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Bring the database to the newest schema, and create the topic; every other command does it by itself too.

    \b
    Example:
      turnlog migrate --database-url postgresql://turnlog@db/turnlog --kafka-bootstrap-servers kafka:9092
    """
    _run("turnlog.services.migrate:migrate", locals())


@app.command()
def version() -> None:
    """Print the version.

    \b
    Example:
      turnlog version
    """
    from turnlog import __version__

    typer.echo(f"turnlog {__version__}")


@topic_app.command()
def check(
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    replication_factor: option.ReplicationFactor = None,
    min_insync_replicas: option.MinInsyncReplicas = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Compare the topic's configuration with what turnlog needs, and say what to set.

    \b
    Example:
      turnlog topic check --kafka-bootstrap-servers kafka:9092
    """
    _run("turnlog.services.topic:check", locals())


@topic_app.command()
def create(
    kafka_bootstrap_servers: option.KafkaBootstrapServers = None,
    topic: option.Topic = None,
    partitions: option.Partitions = None,
    replication_factor: option.ReplicationFactor = None,
    min_insync_replicas: option.MinInsyncReplicas = None,
    log_level: option.LogLevel = None,
    log_format: option.LogFormat = None,
) -> None:
    """Create the topic with the configuration that turnlog needs.

    \b
    Example:
      turnlog topic create --kafka-bootstrap-servers kafka:9092 --replication-factor 3 --min-insync-replicas 2
    """
    _run("turnlog.services.topic:create", locals())


def main() -> None:
    """The entry point."""
    app()


def _run(command: str, flags: Mapping[str, object]) -> None:
    """Run `module:function`, async and of one argument, the settings, until it ends; never show a traceback."""
    import structlog

    from turnlog.domain.errors import Misconfigured
    from turnlog.infra.settings import load_settings, unknown_variables
    from turnlog.infra.structured_logs import configure_logging

    try:
        settings = load_settings(flags)
    except Misconfigured as error:
        _fail([error])
    configure_logging(settings.log_level, settings.log_format)
    for name in unknown_variables(os.environ):
        structlog.get_logger(__name__).warning("unknown_setting", name=name)
    module, _, function = command.partition(":")
    _run_to_the_end(getattr(import_module(module), function), settings)


def _run_to_the_end(function: "Callable[[Settings], Awaitable[list[str] | None]]", settings: "Settings") -> None:
    import anyio
    import structlog

    try:
        lines = anyio.run(partial(function, settings), backend_options={"use_uvloop": True})
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - the last place: it is told in a line
        structlog.get_logger(__name__).debug("command_failed", exc_info=error)
        leaves = list(_leaves(error))
        if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
            raise typer.Exit(INTERRUPTED) from None
        _fail(leaves)
    for line in lines or ():
        typer.echo(line)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """What a task group's error consists of."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _fail(errors: list[BaseException]) -> NoReturn:
    """One line for each different error, and the exit status that says whose fault it is."""
    from turnlog.domain.errors import Misconfigured, TurnlogError
    from turnlog.infra.structured_logs import described

    lines = [
        str(error) if isinstance(error, TurnlogError) else f"this is a bug in turnlog: {described(error)}"
        for error in errors
    ]
    for line in dict.fromkeys(lines):
        sys.stderr.write(f"turnlog: {line}\n")
    misconfigured = all(isinstance(error, Misconfigured) for error in errors)
    raise typer.Exit(MISCONFIGURED if misconfigured else FAILED)


if __name__ == "__main__":
    main()
