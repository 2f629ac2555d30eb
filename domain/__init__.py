"""Events, session keys, entries and the fold. Pure: no I/O, no clock, no ids made inside."""
