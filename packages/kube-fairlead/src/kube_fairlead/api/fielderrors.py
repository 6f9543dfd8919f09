"""Field errors: which field is wrong, why, and what would be right, in Kubernetes' words.

A validator returns a list of `FieldError`; `kube_fairlead.api.errors.invalid` turns the list into the 422 answer.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/util/validation/field/errors.go,
    k8s.io/apimachinery@v0.36.4/pkg/util/validation/field/path.go
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from kube_fairlead.api import golang

__all__ = [
    "MAX_PATH_CHARACTERS",
    "MAX_PROBLEM_CHARACTERS",
    "OMIT_VALUE",
    "ErrorType",
    "FieldError",
    "FieldPath",
    "aggregate",
    "first_problems",
]

# What all field errors of one answer may come to, once in its message and once more in its causes.
MAX_PROBLEM_CHARACTERS: Final = 256 * 1024
# A path longer than this is cut: a key of a megabyte must not be repeated with every field below it.
MAX_PATH_CHARACTERS: Final = 4096


class FieldPath:
    """A path to a field, built from the outside in: `FieldPath("spec").child("containers").index(0).key("x")`.

    Without a name it is Go's nil path, which prints as `<nil>` and vanishes under its first child.
    """

    __slots__ = ("_text",)

    def __init__(self, *names: str) -> None:
        text = ".".join(names)
        self._text = text if len(text) <= MAX_PATH_CHARACTERS else text[:MAX_PATH_CHARACTERS]

    def child(self, *names: str) -> FieldPath:
        """The field below this one."""
        return FieldPath(self._text, *names) if self._text else FieldPath(*names)

    def index(self, index: int) -> FieldPath:
        """An item of this list."""
        return FieldPath(f"{self._text}[{index}]")

    def item(self, name: str, index: int) -> FieldPath:
        """An item of the list in the field below this one."""
        return FieldPath(f"{self._text}.{name}[{index}]" if self._text else f"{name}[{index}]")

    def key(self, key: str) -> FieldPath:
        """A value of this map."""
        return FieldPath(f"{self._text}[{key}]")

    def __str__(self) -> str:
        return self._text or "<nil>"

    def __repr__(self) -> str:
        return f"FieldPath({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldPath) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


class ErrorType(enum.StrEnum):
    """What is wrong with a field; the value is the `reason` of the status cause."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_SHORT = "FieldValueTooShort"
    TOO_MANY = "FieldValueTooMany"
    TOO_FEW = "FieldValueTooFew"
    INTERNAL = "InternalError"
    TYPE_INVALID = "FieldValueTypeInvalid"


_TITLES: Final = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_SHORT: "Too short",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TOO_FEW: "Too few",
    ErrorType.INTERNAL: "Internal error",
    ErrorType.TYPE_INVALID: "Invalid value",
}


class _OmitValue(enum.Enum):
    OMIT_VALUE = enum.auto()


# As a value: say what is wrong without repeating a value that is large or secret.
OMIT_VALUE: Final = _OmitValue.OMIT_VALUE


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong with one field."""

    type: ErrorType
    field: str
    value: Any = OMIT_VALUE
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"

    @property
    def body(self) -> str:
        """The message without the field's name in front."""
        text = _TITLES[self.type]
        if self.value is not OMIT_VALUE:
            text += f": {_print_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def to_cause(self) -> dict[str, Any]:
        """The entry in `details.causes` of the Status."""
        return {"reason": str(self.type), "message": self.body, "field": self.field}

    @classmethod
    def required(cls, path: FieldPath | str, detail: str = "") -> FieldError:
        """The field must be there, and not empty."""
        return cls(ErrorType.REQUIRED, str(path), OMIT_VALUE, detail)

    @classmethod
    def invalid(cls, path: FieldPath | str, value: Any, detail: str) -> FieldError:
        """The value is malformed or out of bounds."""
        return cls(ErrorType.INVALID, str(path), value, detail)

    @classmethod
    def type_invalid(cls, path: FieldPath | str, value: Any, detail: str) -> FieldError:
        """The value is of the wrong JSON type."""
        return cls(ErrorType.TYPE_INVALID, str(path), value, detail)

    @classmethod
    def forbidden(cls, path: FieldPath | str, detail: str) -> FieldError:
        """The field may not be set, or not so, under these conditions."""
        return cls(ErrorType.FORBIDDEN, str(path), OMIT_VALUE, detail)

    @classmethod
    def duplicate(cls, path: FieldPath | str, value: Any) -> FieldError:
        """The value must be unique and is there twice."""
        return cls(ErrorType.DUPLICATE, str(path), value)

    @classmethod
    def not_found(cls, path: FieldPath | str, value: Any) -> FieldError:
        """The value refers to something that does not exist."""
        return cls(ErrorType.NOT_FOUND, str(path), value)

    @classmethod
    def not_supported(cls, path: FieldPath | str, value: Any, allowed: Iterable[str]) -> FieldError:
        """The value is not one of a closed set."""
        names = ", ".join(golang.quote(str(name)) for name in allowed)
        return cls(ErrorType.NOT_SUPPORTED, str(path), value, f"supported values: {names}" if names else "")

    @classmethod
    def too_long(cls, path: FieldPath | str, _value: Any, max_bytes: int) -> FieldError:
        """The value has more bytes than allowed; the message does not repeat it."""
        detail = _bound("may not be more than", max_bytes, "byte") or "value is too long"
        return cls(ErrorType.TOO_LONG, str(path), OMIT_VALUE, detail)

    @classmethod
    def too_long_characters(cls, path: FieldPath | str, _value: Any, max_characters: int) -> FieldError:
        """The value has more characters than allowed; the message does not repeat it."""
        detail = _bound("may not be more than", max_characters, "character") or "value is too long"
        return cls(ErrorType.TOO_LONG, str(path), OMIT_VALUE, detail)

    @classmethod
    def too_many(cls, path: FieldPath | str, actual: int, max_items: int) -> FieldError:
        """The list or map has more entries than allowed. A negative count is left out of the message."""
        detail = _bound("must have at most", max_items, "item") or "has too many items"
        return cls(ErrorType.TOO_MANY, str(path), actual if actual >= 0 else OMIT_VALUE, detail)

    @classmethod
    def internal(cls, path: FieldPath | str, error: object) -> FieldError:
        """Validation itself failed; not the user's fault."""
        return cls(ErrorType.INTERNAL, str(path), OMIT_VALUE, str(error))


def first_problems(problems: Sequence[FieldError]) -> tuple[list[FieldError], int]:
    """As many as one answer may hold, and how many are left out. One that is too long by itself loses its value."""
    size = 0
    kept: list[FieldError] = []
    for problem in problems:
        size += len(problem.field) + len(problem.body)
        if size > MAX_PROBLEM_CHARACTERS:
            break
        kept.append(problem)
    if problems and not kept:
        first = problems[0]
        kept.append(FieldError(first.type, first.field, OMIT_VALUE, first.detail[:MAX_PATH_CHARACTERS]))
    return kept, len(problems) - len(kept)


def aggregate(errors: Iterable[object]) -> str:
    """The errors as one message, as Kubernetes joins them: doubled ones once, brackets around several."""
    messages = list(dict.fromkeys(str(error) for error in errors))
    return messages[0] if len(messages) == 1 else "[" + ", ".join(messages) + "]"


def _bound(phrase: str, limit: int, unit: str) -> str:
    if limit < 0:
        return ""
    return f"{phrase} {limit} {unit}{'' if limit == 1 else 's'}"


def _print_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return golang.print_float(value)
    if isinstance(value, str):
        return golang.quote(value)
    return golang.json_text(value)
