"""From the text of a YAML document to the JSON value it stands for, within limits.

The parser's events are taken one by one and the value is built on a stack of our own, so no depth exhausts the
interpreter's. What a document may cost is limited before it is built: how deep it nests, how many values it holds, and
how many more its aliases stand for.

Upstream: sigs.k8s.io/yaml@v1.6.0/yaml.go,
    go.yaml.in/yaml/v2@v2.4.3/decode.go,
    go.yaml.in/yaml/v2@v2.4.3/scannerc.go,
    go.yaml.in/yaml/v2@v2.4.3/parserc.go
"""

from __future__ import annotations

import decimal
import functools
import math
import re
from collections.abc import Callable
from typing import Any, Final

from kube_fairlead.api import golang
from kube_fairlead.api.yamltext import scalars

__all__ = ["MAX_ALIASED", "MAX_DEPTH", "MAX_REPEATED", "MAX_VALUES", "Reading", "YamlError", "read"]

MAX_DEPTH: Final = 256  # lists and maps inside one another
MAX_VALUES: Final = 200_000  # keys count as values
MAX_ALIASED: Final = 50_000  # values that aliases and merges stand for; each 64 characters of text count as one more
MAX_REPEATED: Final = 1_000  # keys that are reported to be there twice
_MAX_DIRECTIVES: Final = 16  # the parser compares each with all before it

_MERGE: Final = "tag:yaml.org,2002:merge"
_DIRECTIVE: Final = re.compile(r"%[^\r\n\x85\u2028\u2029]*+(?:\r\n|[\r\n\x85\u2028\u2029]|\Z)")
# Blank lines and comments may stand before and between the directives of a document.
_NO_DIRECTIVES: Final = re.compile(r"(?:[ \t#][^\r\n\x85\u2028\u2029]*+|[\r\n\x85\u2028\u2029])*+")
_Pairs = list[tuple[Any, Any, int]]


class YamlError(ValueError):
    """What is wrong with the text. ``where`` is the place, empty when it is unknown.

    ``what`` may quote the text: do not use it for texts with secrets.
    """

    def __init__(self, what: str, line: int = 0, column: int = 0) -> None:
        self.what = " ".join(what.split())
        self.where = f"line {line}, column {column}" if line else ""
        super().__init__(f"{self.where}: {self.what}" if line else self.what)


def read(text: bytes | str) -> Any:
    """The one document in the text, as JSON; None where there is none.

    Raises:
        YamlError: it is not YAML, does not fit JSON, has several documents, or passes a limit.
    """
    reading = Reading(text)
    while not reading.advance(10_000):
        pass
    reading.expect_end()
    return reading.value


class _Frame:
    """A list or a map that is open. A map takes keys and values in turn, and keeps them as pairs with their lines.

    The pairs become a map at its end only: what `<<` merges is pairs too, and the last of two equal keys counts.
    """

    __slots__ = ("anchor", "has_key", "is_map", "items", "key", "line", "merging")

    def __init__(self, *, is_map: bool, anchor: str | None, line: int) -> None:
        self.is_map = is_map
        self.items: list[Any] = []
        self.anchor = anchor
        self.line = line
        self.key: Any = None
        self.has_key = False
        self.merging = False  # a map: the next value is merged into it; a list: its maps are


class _Anchored:
    """A value with a name, and the pairs it is made of if it is a map."""

    __slots__ = ("pairs", "value")

    def __init__(self, value: Any, pairs: _Pairs | None) -> None:
        self.value = value
        self.pairs = pairs


class _Source:
    """The text, handed to the parser a little at a time.

    The parser in C takes a whole scalar at once, however long it is. Only here, where it reads more, can another
    thread have its turn.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._start = 0

    def read(self, size: int) -> str:
        """The next characters."""
        start, self._start = self._start, self._start + size
        return self._text[start : self._start]


class Reading:
    """One document on its way from text to value; what follows it in the text is not looked at."""

    def __init__(self, text: bytes | str) -> None:
        import yaml  # most programs read YAML rarely, and it takes time to load

        self.value: Any = None
        self.repeated: list[str] = []  # keys that are there twice, in the words of Kubernetes
        self._yaml = yaml
        self._frames: list[_Frame] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._values = 0
        self._aliased = 0
        # The same parser in C, where the library was built with it.
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            self._parser = loader(_Source(_decoded(text)))
        except yaml.YAMLError as error:
            raise _translated(error) from error

    def advance(self, events: int) -> bool:
        """Take so many steps; returns whether the document is read.

        Raises:
            YamlError: it cannot be read.
        """
        yaml, handlers, get_event = self._yaml, self._handlers(), self._parser.get_event
        event: Any = None
        try:
            for _ in range(events):
                event = get_event()
                handler = handlers.get(event.__class__)
                if handler is not None:
                    handler(self, event)
                elif isinstance(event, (yaml.DocumentEndEvent, yaml.StreamEndEvent)):
                    return True
        except (yaml.YAMLError, UnicodeError) as error:
            raise _translated(error) from error
        except scalars.BadScalar as error:
            raise _at(event, str(error)) from error
        return False

    def expect_end(self) -> None:
        """Refuse a second document.

        Raises:
            YamlError: there is one.
        """
        try:
            event = self._parser.get_event()
        except (self._yaml.YAMLError, UnicodeError) as error:
            raise _translated(error) from error
        if isinstance(event, self._yaml.DocumentStartEvent):
            raise _at(event, "there is more than one document")

    @classmethod
    @functools.cache
    def _handlers(cls) -> dict[type, Callable[[Reading, Any], None]]:
        """What is done for each event.

        No methods of one reading: these would keep it, and all that it has read, in a cycle.
        """
        import yaml

        return {
            yaml.ScalarEvent: cls._scalar,
            yaml.MappingStartEvent: cls._start_map,
            yaml.SequenceStartEvent: cls._start_list,
            yaml.MappingEndEvent: cls._end,
            yaml.SequenceEndEvent: cls._end,
            yaml.AliasEvent: cls._alias,
            yaml.DocumentStartEvent: cls._start,
        }

    def _start(self, event: Any) -> None:
        if event.version not in {None, (1, 1)}:
            raise _at(event, "found incompatible YAML document")

    def _scalar(self, event: Any) -> None:
        self._values += 1
        frame = self._frames[-1] if self._frames else None
        text, tag, plain = event.value, event.tag, event.implicit[0]
        takes_key = frame is not None and frame.is_map and not frame.has_key
        if text == "<<" and takes_key and frame is not None and (plain or tag == _MERGE):
            frame.merging = frame.has_key = True
            return
        value = text if tag is None and not plain else scalars.resolve(tag, text, plain=plain)
        if value.__class__ is float and not takes_key:
            value = _json_number(value)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(value, None)
        self._place(value, None, event.start_mark.line + 1)

    def _start_map(self, event: Any) -> None:
        self._open(event)
        self._frames.append(_Frame(is_map=True, anchor=event.anchor, line=event.start_mark.line + 1))

    def _start_list(self, event: Any) -> None:
        around = self._open(event)
        frame = _Frame(is_map=False, anchor=event.anchor, line=event.start_mark.line + 1)
        frame.merging = around is not None and around.is_map and around.merging
        self._frames.append(frame)

    def _open(self, event: Any) -> _Frame | None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise _at(event, f"it has more than {MAX_VALUES} values")
        if len(self._frames) >= MAX_DEPTH:
            raise _at(event, f"exceeded max depth of {MAX_DEPTH}")
        if event.anchor:
            self._anchors[event.anchor] = None  # known, but not yet whole
        return self._frames[-1] if self._frames else None

    def _end(self, _event: Any) -> None:
        frame = self._frames.pop()
        pairs: _Pairs | None = None
        value: Any = frame.items
        if frame.is_map:
            merged = bool(self._frames) and self._frames[-1].merging
            pairs = frame.items
            # Of what is merged, the map that it is merged into says what is there twice.
            value = self._map(pairs, [] if merged else self.repeated)
        elif frame.merging:
            # Of two maps in a list, the first one counts: so it is merged last.
            pairs = [pair for one in reversed(frame.items) for pair in one]
        if frame.anchor:
            self._anchors[frame.anchor] = _Anchored(value, pairs if frame.is_map else None)
        self._place(value, pairs, frame.line)

    @staticmethod
    def _map(pairs: _Pairs, repeated: list[str]) -> dict[str, Any]:
        made: dict[str, Any] = {key: value for key, value, _ in pairs if key.__class__ is str}
        if len(made) == len(pairs):
            return made
        made = {}
        seen: set[tuple[type, Any]] = set()  # keys as they are written: the number 1 is not the text "1"
        for key, value, line in pairs:
            typed = (key.__class__, key)
            if typed in seen and len(repeated) <= MAX_REPEATED:
                one = f"line {line}: key {scalars.print_key(key)} already set in map"
                repeated.append(one if len(repeated) < MAX_REPEATED else "and more")
            seen.add(typed)
            made[scalars.key_text(key)] = value
        return made

    def _place(self, value: Any, pairs: _Pairs | None, line: int) -> None:
        """Put a value where it belongs. ``pairs`` are those of a map, and of a list whose maps are merged."""
        if self._values > MAX_VALUES:
            raise YamlError(f"it has more than {MAX_VALUES} values")
        if not self._frames:
            self.value = value
            return
        frame = self._frames[-1]
        if not frame.is_map and not frame.merging:
            frame.items.append(value)
        elif frame.merging:
            if pairs is None:
                raise YamlError("map merge requires map or sequence of maps as the value", line, 1)
            self._spend(len(pairs))  # each level of merging copies them
            if frame.is_map:
                frame.items += pairs
                frame.merging = frame.has_key = False
            else:
                frame.items.append(pairs)
        elif frame.has_key:
            frame.items.append((frame.key, value, line))
            frame.has_key = False
        elif isinstance(value, (dict, list)):
            raise YamlError("invalid map key: a map or a list", line, 1)
        else:
            frame.key, frame.has_key = value, True

    def _alias(self, event: Any) -> None:
        self._values += 1
        if event.anchor not in self._anchors:
            raise _at(event, f"unknown anchor '{event.anchor[:64]}' referenced")
        meant = self._anchors[event.anchor]
        if meant is None:
            raise _at(event, f"anchor '{event.anchor[:64]}' value contains itself")
        merging = bool(self._frames) and self._frames[-1].merging
        depth, line = len(self._frames), event.start_mark.line + 1
        if not merging:
            self._place(self._copy(meant.value, depth), None, line)
        elif meant.pairs is None:
            self._place(None, None, line)
        else:
            self._place(None, [(key, self._copy(value, depth), at) for key, value, at in meant.pairs], line)

    def _spend(self, values: int) -> None:
        self._aliased += values
        if self._aliased > MAX_ALIASED:
            raise scalars.BadScalar("document contains excessive aliasing")

    def _copy(self, value: Any, depth: int) -> Any:
        """What an alias stands for, as a value of its own: a change of one must not change the other."""
        self._spend(1 + (len(value) // 64 if value.__class__ is str else 0))
        if not isinstance(value, (dict, list)):
            return value
        if depth >= MAX_DEPTH:
            raise scalars.BadScalar(f"exceeded max depth of {MAX_DEPTH}")
        if isinstance(value, list):
            return [self._copy(item, depth + 1) for item in value]
        return {key: self._copy(item, depth + 1) for key, item in value.items()}


def _json_number(value: float) -> int | float:
    """A float as JSON has it: 1.0 and 1e3 are written there without a point, and so are whole numbers again."""
    if not math.isfinite(value):
        raise scalars.BadScalar(f"json: unsupported value: {golang.print_float(value)}")
    # The shortest digits, then zeros: 2.0**64 is 18446744073709552000 there.
    return int(decimal.Decimal(repr(value))) if value.is_integer() and abs(value) < 1e21 else value


def _decoded(text: bytes | str) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-16" if text[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig")
        except UnicodeDecodeError as error:
            raise YamlError(f"it is no text in UTF-8: {error.reason}") from None
    start = 0
    for _ in range(_MAX_DIRECTIVES):
        if blank := _NO_DIRECTIVES.match(text, start):
            start = blank.end()
        directive = _DIRECTIVE.match(text, start)
        if directive is None:
            return text
        start = directive.end()
    raise YamlError(f"it has more than {_MAX_DIRECTIVES} directives")


def _translated(error: Exception) -> YamlError:
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark: Any = getattr(error, "problem_mark", None)
    return YamlError(str(what)) if mark is None else YamlError(str(what), mark.line + 1, mark.column + 1)


def _at(event: Any, what: str) -> YamlError:
    return YamlError(what, event.start_mark.line + 1, event.start_mark.column + 1)
