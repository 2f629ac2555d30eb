"""Every setting of turnlog: its default, its bounds, its meaning. Flags go over the environment, that over defaults.

`docs/settings.md` is made from this file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from turnlog.domain.errors import Misconfigured
from turnlog.infra.postgres_directory import default_data_dir

PREFIX = "TURNLOG_"
NOT_SETTINGS = ("TURNLOG_TEST_", "TURNLOG_KAFKA_CACHE", "TURNLOG_FAILPOINT")
"""Names (or beginnings of names) of variables that only tests and development use."""


def _listed(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _absolute(path: Path) -> Path:
    return path.expanduser().absolute()


def _not_empty(value: object) -> object:
    if value in ("", Path()):
        raise ValueError("must not be empty")
    return value


def _nothing_if_empty(value: object) -> object:
    return None if value == "" else value


Listed = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
Milliseconds = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Settings(BaseSettings):
    """The settings of one process. `load_settings` makes them, with errors that name the variable."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True
    )

    host: str = Field("127.0.0.1", description="Address to listen on. Other than loopback only with an access token")
    port: int = Field(18790, ge=0, le=65_535, description="TCP port to listen on; 0 takes a free one")
    data_dir: Annotated[Path, BeforeValidator(_not_empty), AfterValidator(_absolute)] = Field(
        default_factory=default_data_dir, description="Where the embedded PostgreSQL keeps its data"
    )
    database_url: Annotated[str | None, BeforeValidator(_nothing_if_empty)] = Field(
        None,
        repr=False,
        description="`postgresql://user:password@host/name` of a PostgreSQL 16 or newer. Without it: the embedded one",
    )
    pool_size: int = Field(10, ge=4, le=1000, description="Most connections to the database, per process")
    kafka_bootstrap_servers: Annotated[str | None, BeforeValidator(_nothing_if_empty)] = Field(
        None, description="`host:port,…` of a Kafka, which then holds the log. Without it: the log is in PostgreSQL"
    )
    topic: str = Field(
        "turnlog.events", pattern=r"^[A-Za-z0-9._-]{1,249}$", description="The Kafka topic that holds the log"
    )
    partitions: int = Field(
        12, ge=1, le=1024, description="Partitions that the topic has or is created with; fixed for ever after that"
    )
    replication_factor: int = Field(
        1, ge=1, le=32, description="Replicas that the topic has at least, or is created with; 3 in production"
    )
    min_insync_replicas: int = Field(
        1, ge=1, le=32, description="Replicas that must have a record before it is acknowledged; 2 in production"
    )
    append_timeout_ms: Milliseconds = Field(
        10_000, description="How long an append may take before its outcome is reported as unknown"
    )
    access_token: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("access_token", "TURNLOG_ACCESS_TOKEN", "STUDIO_ACCESS_TOKEN"),
        description="The token that clients must send. Characters `A-Z a-z 0-9 . _ ~ -`",
    )
    allow_public_bind: bool = Field(False, description="Listen beyond loopback without an access token")
    allowed_hosts: Listed = Field((), description="More names that the `Host` header may hold, separated by commas")
    allowed_origins: Listed = Field((), description="More values that the `Origin` header may hold")
    trusted_proxies: Listed = Field((), description="Addresses whose `X-Forwarded-For` and `X-Forwarded-Proto` count")
    rate_limit: int = Field(3000, ge=0, description="Requests a minute and client; 0 switches the limit off")
    reads: Literal["own", "linear"] = Field(
        "own",
        description="What a read without `Turnlog-After` waits for: this process's own writes, or the log's end",
    )
    read_wait_ms: Milliseconds = Field(
        5_000, description="How long a read, or a write that needs a verdict, waits for the projector before 503"
    )
    stream_queue_bytes: int = Field(
        256 * 1024, ge=4096, description="Bytes that may wait for one stream client before it is cut off"
    )
    max_streams: int = Field(1000, ge=1, description="Streams open at once in one process")
    keepalive_s: Seconds = Field(20.0, description="How often an idle stream gets a comment")
    shutdown_timeout_s: float = Field(
        10.0, ge=1, description="How long the server may take to end after SIGTERM, requests in flight included"
    )
    no_projector: bool = Field(False, description="Serve the API alone; projectors run elsewhere (`turnlog project`)")
    lease_ms: int = Field(10_000, ge=500, description="How long a dead projector keeps its partitions from others")
    lag_bound: int = Field(
        10_000, ge=0, description="Records a partition may be behind before `/readyz` says the process isn't ready"
    )
    erasure_interval_s: Seconds = Field(1.0, description="How often the eraser looks for records to erase")
    erasure_tick_s: Seconds = Field(
        6 * 3600.0, description="How often an idle Kafka partition gets a record, so that its segments roll"
    )
    erasure_verify_s: Seconds = Field(
        3600.0, description="How often the eraser looks whether Kafka's compaction has removed what it erased"
    )
    erasure_rewrite_s: float = Field(
        24 * 3600.0,
        ge=0,
        description="Least time between two rewrites of the tables after an erasure, which lock them; 0 for none",
    )
    erasure_rewrite_max_bytes: int = Field(
        1024**3, ge=0, description="Tables larger than this are not rewritten but named in a warning (docs/erasure.md)"
    )
    requests_kept_s: float = Field(
        24 * 3600.0, ge=60, description="How long verdicts on requests without an idempotency key are kept"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least that is logged")
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="`auto`: for people on a terminal, JSON lines elsewhere"
    )

    @model_validator(mode="after")
    def _replicas_suffice(self) -> Self:
        if self.min_insync_replicas > self.replication_factor:
            raise PydanticCustomError(
                "replicas", "TURNLOG_MIN_INSYNC_REPLICAS must not be above TURNLOG_REPLICATION_FACTOR"
            )
        return self


def load_settings(flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings from flags (None = not given), the environment and defaults.

    Raises Misconfigured, naming the variable and never its value, which could be a secret.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        causes = [_variable(problem["loc"]) + problem["msg"] for problem in error.errors(include_input=False)]
        raise Misconfigured("; ".join(causes)) from None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Names of `TURNLOG_…` variables that are no settings: misspelled, most likely."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    candidates = (name for name in environment if name.startswith(PREFIX) and not name.startswith(NOT_SETTINGS))
    return sorted(name for name in candidates if name not in known)


def _variable(location: tuple[int | str, ...]) -> str:
    """The variable's name and a colon, nothing for a rule between several of them."""
    if not location:
        return ""
    name = str(location[0])
    return f"{name}: " if name.isupper() else f"{PREFIX}{name.upper()}: "
