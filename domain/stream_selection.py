"""Which sessions one live stream merges: a team's General chat, one of its rooms, or an agent's own chats."""

from dataclasses import dataclass

from turnlog.domain.partitioning import partition_of
from turnlog.domain.session_key import GENERAL, Scope, agent_id_of, parse_team_key, team_stream


@dataclass(frozen=True, slots=True)
class StreamSelection:
    """Exactly one of `team_id` (with `room_id` None for General) and `agent_id` is set."""

    team_id: str | None = None
    room_id: str | None = None
    agent_id: str | None = None

    @classmethod
    def team(cls, team_id: str, room_id: str | None = None) -> "StreamSelection":
        """A team's General chat, or one room."""
        return cls(team_id=team_id, room_id=room_id)

    @classmethod
    def agent(cls, agent_id: str) -> "StreamSelection":
        """All sessions of an agent outside teams."""
        return cls(agent_id=agent_id)

    def partition(self, partitions: int) -> int:
        """The one partition whose rows it shows: all members belong to one stream."""
        stream = f"agent:{self.agent_id}" if self.team_id is None else team_stream(self.team_id)
        return partition_of(stream, partitions)

    def shows(self, session_key: str) -> bool:
        """True if rows of this key belong to the stream."""
        team = parse_team_key(session_key)
        if team is None:
            return self.agent_id is not None and agent_id_of(session_key) == self.agent_id
        return team.team_id == self.team_id and team.room_id == self.room_id

    def scope(self) -> Scope | None:
        """The scope a Clear of exactly this selection has; None for an agent's chats."""
        if self.team_id is None:
            return None
        return Scope(self.team_id, GENERAL if self.room_id is None else f"room:{self.room_id}")
