"""Splits source text into tokens by the CEL grammar (longest match, ASCII identifiers).

Upstream: github.com/google/cel-go@v0.26.0/parser/gen/CEL.g4
"""

from __future__ import annotations

import dataclasses
import re

from kube_fairlead_apiserver.cel import errors

__all__ = ["END", "Token", "tokenize"]

END = "<EOF>"

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING_FORMS = (
    r'[rR]"""[\s\S]*?"""',
    r"[rR]'''[\s\S]*?'''",
    rf'"""(?:{_ESCAPE}|[^\\])*?"""',
    rf"'''(?:{_ESCAPE}|[^\\])*?'''",
    r'[rR]"[^"\n\r]*"',
    r"[rR]'[^'\n\r]*'",
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
    rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
)
_STRING = "|".join(_STRING_FORMS)
_TOKEN = re.compile(
    rf"""
    (?P<blank>[\t\ \r\n\f]+|//[^\n]*)
  | (?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<NUM_UINT>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<BYTES>[bB](?:{_STRING.replace(" ", "[ ]")}))
  | (?P<STRING>{_STRING.replace(" ", "[ ]")})
  | (?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)
_STRING_BODY = re.compile(rf"""[bB]?[rR]?(?:"(?:{_ESCAPE}|[^\\"\n\r])*|'(?:{_ESCAPE}|[^\\'\n\r])*)\\?""")
_ERRORS_MAX = 100
_KEYWORDS = frozenset({"true", "false", "null", "in"})


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A part of the source. ``kind`` is its name in the grammar; operators and keywords are their own kind."""

    kind: str
    text: str
    offset: int


def tokenize(source: str, issues: errors.IssueLog) -> list[Token]:
    """Split the source into tokens, with END last. Unrecognised text is reported and skipped."""
    tokens: list[Token] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            if len(issues.issues) >= _ERRORS_MAX:
                issues.report(position, f"Syntax error: More than {_ERRORS_MAX} syntax errors")
                break
            position = _skip_unrecognised(source, position, issues)
            continue
        kind = match.lastgroup
        text = match[0]
        if kind == "operator" or (kind == "IDENTIFIER" and text in _KEYWORDS):
            kind = text
        if kind is not None and kind != "blank":
            tokens.append(Token(kind, text, position))
        position = match.end()
    tokens.append(Token(END, END, len(source)))
    return tokens


def _skip_unrecognised(source: str, position: int, issues: errors.IssueLog) -> int:
    """Report the text from the start of the invalid token to the invalid character, and continue after it."""
    character = source[position]
    if character in "'\"" and (body := _STRING_BODY.match(source, position)):
        end = body.end() + 1
    elif character in "&|=`":
        end = position + 2
    else:
        end = position + 1
    end = min(end, len(source))
    text = source[position:end].replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    issues.report(position, f"Syntax error: token recognition error at: '{text}'")
    return end
