"""Names in paths: `{id:name}` takes everything between its neighbours, a slash that came as `%2F` included.

Servers hand paths on decoded, so an id that holds a slash looks like two segments; a team or an agent may have one.
"""

from starlette.convertors import Convertor, register_url_convertor


class NameConvertor(Convertor[str]):
    """One or more characters of any kind."""

    regex = r"[\s\S]+"

    def convert(self, value: str) -> str:
        """The name as it stands in the decoded path."""
        return value

    def to_string(self, value: str) -> str:
        """The name itself."""
        return value


register_url_convertor("name", NameConvertor())

TEAM_CHAT = "/api/teams/{id:name}/chat"
AGENT_CHAT = "/api/agents/{id:name}/chat"
