"""What a batch of records will ask about, so that one query can load it before the fold."""

from collections.abc import Sequence
from uuid import UUID

from turnlog.domain import event_data as d
from turnlog.domain.fold.decode import DecodedRecord
from turnlog.domain.fold.state import Touched
from turnlog.domain.session_key import Scope, scopes_of, session_id


def touched(decoded: Sequence[DecodedRecord]) -> Touched:
    """Everything of the stored state that `fold` may look at when it judges these records."""
    wanted = Touched()
    keys: set[str] = set()
    for at in decoded:
        event, data = at.event, at.data
        wanted.event_ids.add(event.id)
        if event.producer is not None:
            wanted.producers.add(event.producer)
        if event.idempotency_key is not None:
            wanted.key_hashes.add(event.idempotency_key)
        for entry in at.entries:
            wanted.entry_hashes.add(entry.hash)
        if isinstance(data, d.ChatCleared):
            wanted.cleared.add(Scope(data.team_id, data.scope))
        elif isinstance(data, d.ProducerFenced):
            wanted.producers.add(UUID(data.producer))
        elif isinstance(data, d.ContextReset):
            keys.update(data.session_keys)
            keys.add(event.subject)
        elif not isinstance(data, d.ErasureCompleted | d.Genesis | d.Tick):
            keys.add(event.subject)
    for key in keys:
        wanted.session_ids.add(session_id(key))
        wanted.scopes.update(scopes_of(key))
    wanted.scopes |= wanted.cleared
    return wanted
