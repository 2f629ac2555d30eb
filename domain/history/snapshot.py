"""What an agent continues from, as it stands at one position (architecture, "Snapshots")."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnlog.domain.fold.state import ResumePoint
from turnlog.domain.history.messages import AgentMessage
from turnlog.domain.history.provider_valid import Repair
from turnlog.domain.positions import Position


@dataclass(frozen=True, slots=True)
class HistorySnapshot:
    """The messages in context, oldest first. `position` is that of the session's last turn or ending.

    `repairs` lists what had to be changed so that a provider takes the messages; what is stored never changes.
    """

    session_key: str
    position: Position
    epoch: int
    messages: Sequence[AgentMessage]
    resume_point: ResumePoint | None
    repairs: Sequence[Repair]
