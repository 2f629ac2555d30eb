"""A single-node Apache Kafka for tests and development, without Docker: Maven fetches the jars, a JVM runs them.

`python -m tests.kafka_local --help` starts and stops one by hand; `tests/kafka_server.py` starts one per test session.
"""
