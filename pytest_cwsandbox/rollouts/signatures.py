"""What a model may pass to a function, as a strict JSON schema, and what it did pass."""

from __future__ import annotations

import inspect
import json
import re
import typing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rollouts.plain_json import read_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pydantic import BaseModel, ValidationError

SANDBOX = "sandbox"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ARGUMENTS = re.compile(r"^\s*(?:Args|Arguments|Parameters):\s*$", re.MULTILINE)
ARGUMENT = re.compile(r"^\s*(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
CHARACTERS = 16 << 20  # of a call's arguments; to read them takes a multiple in memory
SHOWN = 1000  # characters of a complaint about arguments


class ArgumentsError(Exception):
    """The model passed something else than the function takes; the message tells it so."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a tool. ``schema`` is strict: all required, optional ones nullable."""

    name: str
    description: str
    schema: dict[str, object]
    takes_sandbox: bool
    model: type[BaseModel]
    names: dict[str, str]  # of the model's fields, to those of the parameters
    optional: frozenset[str]

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
    ) -> Signature:
        """Raises ``ConfigurationError``."""
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError

        name = name or str(getattr(function, "__name__", type(function).__name__))
        text, documented = _documentation(function)
        description = description or text
        if not NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name} cannot be a tool: give it a name of letters, digits, _ and -"
            )
        if not description:
            raise ConfigurationError(
                f"{name} cannot be a tool: it needs a docstring, which tells the model what it does"
            )
        fields: dict[str, object] = {}
        names: dict[str, str] = {}
        optional: set[str] = set()
        takes_sandbox = False
        for parameter, annotation in _parameters(name, function):
            if parameter.name == SANDBOX:
                takes_sandbox = True
                continue
            # An alias: a field may not be called as what every model has, such as "copy".
            about = Field(alias=parameter.name)
            if parameter.default is not parameter.empty:
                optional.add(parameter.name)
                annotation, about = _nullable(annotation), Field(None, alias=parameter.name)  # noqa: PLW2901 - the same parameter's
            field = f"argument_{len(fields)}"
            names[field] = parameter.name
            fields[field] = (annotation, about)
        try:
            model: type[BaseModel] = create_model(  # type: ignore[call-overload]  # its fields are known only now
                "Arguments", __config__=ConfigDict(extra="forbid", strict=True), **fields
            )
            schema = model.model_json_schema()
            for parameter_name, words in documented.items():
                if parameter_name in schema["properties"]:
                    schema["properties"][parameter_name].setdefault("description", words)
        except PydanticUserError as error:
            reason = str(error).splitlines()[0]
            raise ConfigurationError(f"{name} cannot be a tool: {reason}") from error
        try:
            _make_strict(schema)
        except TypeError as error:
            raise ConfigurationError(f"{name} cannot be a tool: {error}") from None
        return cls(name, description, schema, takes_sandbox, model, names, frozenset(optional))

    def read(self, arguments: str) -> dict[str, object]:
        """The values to call the function with; raises ``ArgumentsError``."""
        from pydantic import ValidationError

        if len(arguments) > CHARACTERS:
            raise self._wrong(f"have {len(arguments)} characters; at most {CHARACTERS} are read")
        try:
            given = read_arguments(arguments.strip() or "{}")
            # Half a surrogate pair is no text that a file or a command could hold.
            clean = json.dumps(given, ensure_ascii=False).encode("utf-8", "replace")
        except ValueError as error:
            raise self._wrong(f"are not valid JSON: {error}") from None
        if not isinstance(given, dict):
            raise self._wrong(f"must be a JSON object, not {_kind(given)}")
        try:
            model = self.model.model_validate_json(clean)
        except ValidationError as error:
            raise self._wrong(f"are wrong: {'; '.join(_complaints(error))}") from None
        values = {self.names[field]: getattr(model, field) for field in model.model_fields_set}
        # null stands for "not given": a strict schema leaves a model no other way to say so.
        return {
            name: value
            for name, value in values.items()
            if value is not None or name not in self.optional
        }

    def _wrong(self, what: str) -> ArgumentsError:
        properties = self.schema["properties"]
        expected = json.dumps(properties, ensure_ascii=False)
        return ArgumentsError(
            f"the arguments of {self.name} {what[:SHOWN]}\n"
            f"Expected is a JSON object with exactly these properties: {expected}"
        )


def _parameters(
    name: str, function: Callable[..., object]
) -> Iterator[tuple[inspect.Parameter, object]]:
    try:
        hints = _hints(function)
    except NameError as error:
        raise ConfigurationError(f"{name} cannot be a tool: {error}") from error
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}:
            raise ConfigurationError(
                f"{name} cannot be a tool: parameter {parameter.name!r} cannot be passed by name"
            )
        if parameter.name != SANDBOX and parameter.name not in hints:
            raise ConfigurationError(
                f"{name} cannot be a tool: parameter {parameter.name!r} needs a type"
            )
        yield parameter, hints.get(parameter.name)


def _hints(function: Callable[..., object]) -> dict[str, object]:
    """The types, but that of the sandbox: it may have been imported for type checkers alone."""
    plain = function if inspect.isroutine(function) else type(function).__call__
    plain = inspect.unwrap(plain)
    annotations = {
        name: annotation
        for name, annotation in plain.__annotations__.items()
        if name not in {SANDBOX, "return"}
    }
    return typing.get_type_hints(
        SimpleNamespace(__annotations__=annotations), plain.__globals__, include_extras=True
    )


def _nullable(annotation: object) -> object:
    if typing.get_origin(annotation) is typing.Annotated:  # keeps its description on top
        inner, *notes = typing.get_args(annotation)
        return typing.Annotated[(_nullable(inner), *notes)]
    union: object = typing.Optional  # not |, which some annotations do not have
    return union[annotation]  # type: ignore[index]  # mypy takes it for a type, not a value


def _documentation(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """The docstring without its section on arguments, and what that says of each."""
    text = inspect.getdoc(function) or ""
    heading = ARGUMENTS.search(text)
    if heading is None:
        return text.strip(), {}
    section, _, rest = text[heading.end() :].strip("\n").partition("\n\n")
    described: dict[str, str] = {}
    current = ""
    for line in section.splitlines():
        if match := ARGUMENT.match(line):
            current = match[1]
            described[current] = match[2].strip()
        elif current:
            described[current] = f"{described[current]} {line.strip()}".strip()
    before = text[: heading.start()].strip()
    return "\n\n".join(part for part in (before, rest.strip()) if part), described


def _make_strict(schema: dict[str, object], place: str = "its parameters") -> None:
    """Close and require everything; raises ``TypeError`` for what a strict schema cannot say."""
    schema.pop("title", None)
    schema.pop("default", None)
    if not schema.keys() - {"description"}:
        raise TypeError(f"{place} may be anything: give a type")
    if schema.get("type") == "array" and "items" not in schema:
        raise TypeError(f"{place} may hold anything: give the type of its items")
    if schema.get("type") == "object":
        properties = schema.setdefault("properties", {})
        if not properties and schema.get("additionalProperties") is not False:
            raise TypeError(f"{place} may have any keys: use a list, or a model that names them")
        schema["required"] = [*cast("dict[str, object]", properties)]
        schema["additionalProperties"] = False
    for part, inner in _parts(schema, place):
        _make_strict(part, inner)


def _parts(schema: dict[str, object], place: str) -> Iterator[tuple[dict[str, object], str]]:
    for key in ("properties", "$defs"):
        named = schema.get(key)
        if isinstance(named, dict):
            yield from ((part, repr(name)) for name, part in named.items())
    items = schema.get("items")
    if isinstance(items, dict):
        yield items, place
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, list):
        yield from ((part, place) for part in alternatives)


def _complaints(error: ValidationError) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in fault["loc"])
        yield f"{where}: {fault['msg']}" if where else fault["msg"]


def _kind(value: object) -> str:
    kinds = {str: "a string", list: "an array", bool: "a boolean", int: "a number"}
    return kinds.get(type(value), "null" if value is None else "a number")
