"""Benchmarks: ratios against a raw asyncpg floor in the same run (`make bench`)."""
