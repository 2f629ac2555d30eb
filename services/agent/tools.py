"""Tools made from plain typed functions: the schema from the annotations, the call from the model's JSON."""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import anyio.to_thread
import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from turnlog.services.providers.provider import ToolCall, ToolSpec

ToolFunction = Callable[..., Any] | Callable[..., Awaitable[Any]]

_NO_KEYWORD = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Tool:
    """A function that a model may call. A sync one runs in a thread."""

    def __init__(self, function: ToolFunction) -> None:
        """Raises TypeError for what isn't a named function, and for parameters without a type or to pass by place."""
        name = getattr(function, "__name__", "")
        if not callable(function) or not name.isidentifier():
            raise TypeError(f"a tool must be a named function, not {type(function).__name__}")
        self._function = function
        self._arguments = _arguments_of(function, name)
        self.spec = ToolSpec(name, inspect.getdoc(function) or "", _schema(self._arguments))

    async def run(self, arguments: str) -> str:
        """The result as text. What goes wrong is a result too: the model is told, the turn goes on."""
        try:
            values = self._arguments.model_validate_json(arguments.strip() or "{}")
        except ValidationError as error:
            return _failure(f"the arguments don't fit: {_reasons(error)}")
        given = {field.alias: getattr(values, name) for name, field in type(values).model_fields.items() if field.alias}
        try:
            if inspect.iscoroutinefunction(self._function):
                return _as_text(await self._function(**given))
            return _as_text(await anyio.to_thread.run_sync(lambda: self._function(**given), abandon_on_cancel=True))
        except Exception as error:  # noqa: BLE001 - a tool's error is its result (history-restore.md, "The agent")
            return _failure(f"{type(error).__name__}: {error}")


class Toolbox:
    """The tools of one agent, by name."""

    def __init__(self, functions: Iterable[ToolFunction | Tool]) -> None:
        """Raises TypeError for what can't be a tool, ValueError for a name used twice."""
        self._tools: dict[str, Tool] = {}
        for function in functions:
            tool = function if isinstance(function, Tool) else Tool(function)
            if tool.spec.name in self._tools:
                raise ValueError(f"two tools are named {tool.spec.name}")
            self._tools[tool.spec.name] = tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What a provider is told of them."""
        return tuple(tool.spec for tool in self._tools.values())

    async def run(self, call: ToolCall) -> str:
        """The result of one call, as text."""
        tool = self._tools.get(call.name)
        if tool is None:
            return _failure(f"there is no tool named {call.name}")
        return await tool.run(call.arguments)


def _arguments_of(function: ToolFunction, name: str) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    signature = inspect.signature(function, eval_str=True)
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in _NO_KEYWORD:
            raise TypeError(f"tool {name}: parameter {parameter.name} can't be passed by name")
        if parameter.annotation is inspect.Parameter.empty:
            raise TypeError(f"tool {name}: parameter {parameter.name} has no type")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        # By alias, so that a parameter may bear any name, also one that pydantic's models use themselves.
        fields[f"argument_{index}"] = (parameter.annotation, Field(default, alias=parameter.name))
    config = ConfigDict(extra="forbid", allow_inf_nan=False)
    return create_model(name, __config__=config, **fields)


def _schema(arguments: type[BaseModel]) -> dict[str, Any]:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    return schema


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else pydantic_core.to_json(value, fallback=str).decode()


def _failure(reason: str) -> str:
    return f"error: {reason}"


def _reasons(error: ValidationError) -> str:
    found = ((".".join(map(str, detail["loc"])), detail["msg"]) for detail in error.errors(include_url=False))
    return "; ".join(f"{place}: {message}" if place else message for place, message in found)
