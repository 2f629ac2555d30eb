"""The broker's jars: where they are cached, and how Maven fills that cache."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

Say = Callable[[str], None]

POM = Path(__file__).with_name("pom.xml")
LEAST_JAVA = 17
_FETCHED = re.compile(r"Downloaded from \S+ \S*?([^/\s]+\.jar) ")


class KafkaUnavailableError(Exception):
    """No local broker can be had here; the message says why and what would help."""


def kafka_version() -> str:
    """The Apache Kafka release that `pom.xml` names."""
    found = re.search(r"<kafka\.version>([^<]+)</kafka\.version>", POM.read_text(encoding="utf-8"))
    if found is None:
        raise KafkaUnavailableError(f"{POM} names no kafka.version")
    return found.group(1)


def cache_directory() -> Path:
    """Where jars and the detached broker's state are: `TURNLOG_KAFKA_CACHE`, else `.cache/kafka` in the checkout."""
    chosen = os.environ.get("TURNLOG_KAFKA_CACHE")
    return Path(chosen).absolute() if chosen else Path(__file__).parents[2] / ".cache" / "kafka"


@dataclass(frozen=True)
class Java:
    """A Java command and what it calls its version, like `17.0.15`."""

    path: str
    version: str


@dataclass(frozen=True)
class Installation:
    """What it takes to run the broker: a Java, the directory of jars, and further JVM options."""

    java: Java
    jars: Path
    options: tuple[str, ...] = ()


def require_java() -> Java:
    """A Java that can run the broker (17 or newer). Raises KafkaUnavailableError."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        raise KafkaUnavailableError(f"no java command found: install a Java {LEAST_JAVA} runtime or newer")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - fixed
    version = re.search(r'version "((\d+)[^"]*)"', told)
    if version is None or int(version.group(2)) < LEAST_JAVA:
        line = (told.splitlines() or ["it did not start"])[0]
        raise KafkaUnavailableError(f"{java} is not Java {LEAST_JAVA} or newer ({line})")
    return Java(java, version.group(1))


def fetch(say: Say) -> Path:
    """The directory that holds the broker's jars, filled by Maven if it isn't there yet.

    It appears whole or not at all, and two callers at once fetch once. Raises KafkaUnavailableError.
    """
    home = cache_directory() / kafka_version()
    jars = home / "jars"
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailableError(f"no jars in {jars} and no mvn command to fetch them: install Maven")
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not jars.is_dir():
            with tempfile.TemporaryDirectory(dir=home, prefix="fetching-") as partial:
                _copy_by_maven(maven, Path(partial) / "jars", say)
                (Path(partial) / "jars").rename(jars)
    return jars


def _copy_by_maven(maven: str, target: Path, say: Say) -> None:
    say(f"Fetching Apache Kafka {kafka_version()} by Maven (about 45 MB, once)")
    # Batch mode for plain lines, strict checksums so that a damaged jar is refused instead of warned about.
    command = [maven, "--batch-mode", "--strict-checksums", "--file", str(POM), f"-DoutputDirectory={target}"]
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603 - fixed arguments
        [*command, "dependency:copy-dependencies"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as maven_run:
        for line in maven_run.stdout or ():
            lines.append(line)
            if fetched := _FETCHED.search(line):
                say(f"  {fetched.group(1)}")
    if maven_run.returncode != 0:
        errors = [line for line in lines if "ERROR" in line][:3] or lines[-3:]
        raise KafkaUnavailableError("Maven could not fetch the broker's jars:\n" + "".join(errors).rstrip())
    say(f"  {len(list(target.glob('*.jar')))} jars are in place")
