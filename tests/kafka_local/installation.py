"""Everything a broker needs, made once and cached: the jars, and an archive of loaded classes for a quicker start."""

import tempfile
from pathlib import Path

from tests.kafka_local.broker import LocalBroker
from tests.kafka_local.jars import Installation, Say, fetch, require_java


def prepare(say: Say) -> Installation:
    """Fetch what is missing, telling `say` about each step. Raises KafkaUnavailableError if it can't be had."""
    java = require_java()
    jars = fetch(say)
    archive = jars.with_name(f"classes-{java.version}.jsa")
    if not archive.exists():
        say("Preparing a class archive, so that brokers start in 2 s instead of 3 (once, about 10 s)")
        _write_class_archive(Installation(java, jars), archive)
    # Should the archive not fit this JVM after all, the broker starts without it: a little later, no worse.
    return Installation(java, jars, (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"))


def _write_class_archive(install: Installation, archive: Path) -> None:
    # JEP 350: a JVM that ends in an orderly way can leave the classes it loaded behind in mappable form.
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="archiving-") as scratch:
        written = Path(scratch) / "classes.jsa"
        options = (f"-XX:ArchiveClassesAtExit={written}", "-Xlog:disable")
        broker = LocalBroker(Installation(install.java, install.jars, options), Path(scratch))
        try:
            broker.launch()
            broker.wait_until_serving()
        finally:
            broker.stop()
        # A JVM that had no time to leave one behind costs the next starts a second, nothing else.
        if written.exists():
            written.rename(archive)
