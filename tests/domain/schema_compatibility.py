"""Whether a schema may replace a released one within its version: only optional members may be added (events.md).

Both ways must work: a new reader on old records, and an old reader, which ignores unknown members, on new ones. So a
new enum value breaks as much as a lost one, and a changed default changes what an absent member meant.
"""

from typing import Any

Schema = dict[str, Any]

_ANNOTATIONS = {"title", "description", "$schema", "$defs"}
_COMPARED_DEEPLY = {"properties", "required", "items", "anyOf", "additionalProperties"}


def incompatibilities(old: Schema, new: Schema) -> list[str]:
    """Why `new` may not replace `old`, each with the path of the member; empty if it may."""
    return list(_Comparison(old, new).compare("$", old, new))


class _Comparison:
    def __init__(self, old: Schema, new: Schema) -> None:
        self.old_defs: Schema = old.get("$defs", {})
        self.new_defs: Schema = new.get("$defs", {})

    def compare(self, path: str, old: Any, new: Any) -> list[str]:  # noqa: ANN401 - any JSON
        if not isinstance(old, dict) or not isinstance(new, dict):
            return [] if old == new else [f"{path}: {old!r} became {new!r}"]
        old, new = _resolved(old, self.old_defs), _resolved(new, self.new_defs)
        found = self._members(path, old, new)
        for keyword in sorted((set(old) | set(new)) - _ANNOTATIONS - _COMPARED_DEEPLY):
            if old.get(keyword) != new.get(keyword):
                found.append(f"{path}: {keyword} {old.get(keyword)!r} became {new.get(keyword)!r}")
        for keyword in ("items", "additionalProperties"):
            if keyword in old or keyword in new:
                found += self.compare(f"{path}.{keyword}", old.get(keyword), new.get(keyword))
        return found + self._choices(path, old.get("anyOf", []), new.get("anyOf", []))

    def _members(self, path: str, old: Schema, new: Schema) -> list[str]:
        old_members, new_members = old.get("properties", {}), new.get("properties", {})
        found = [f"{path}.{name}: removed" for name in sorted(set(old_members) - set(new_members))]
        old_required, new_required = set(old.get("required", ())), set(new.get("required", ()))
        found += [f"{path}.{name}: became required" for name in sorted(new_required - old_required)]
        found += [f"{path}.{name}: is no longer required" for name in sorted(old_required - new_required)]
        for name in sorted(set(old_members) & set(new_members)):
            found += self.compare(f"{path}.{name}", old_members[name], new_members[name])
        return found

    def _choices(self, path: str, old: list[Any], new: list[Any]) -> list[str]:
        if len(old) != len(new):
            return [f"{path}: has {len(new)} alternatives, had {len(old)}"]
        return [
            reason
            for number, (before, after) in enumerate(zip(old, new, strict=True))
            for reason in self.compare(f"{path}[{number}]", before, after)
        ]


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    """The schema with a reference replaced by what it names."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    rest = {name: value for name, value in schema.items() if name != "$ref"}
    target: Schema = definitions[reference.removeprefix("#/$defs/")]
    return target | rest
