"""The two event logs, the Postgres engine, embedded Postgres, settings, telemetry, migrations."""
