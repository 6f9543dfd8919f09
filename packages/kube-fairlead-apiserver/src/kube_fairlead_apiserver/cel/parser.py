"""Parses tokens into a syntax tree: precedence climbing over the CEL grammar.

The first syntax error ends parsing, with the message of cel-go's parser where its rule is simple enough. Nesting and
tree depth are limited, because every later step recurses over the tree.

Upstream: github.com/google/cel-go@v0.26.0/parser/parser.go,
    github.com/google/cel-go@v0.26.0/parser/errors.go,
    github.com/google/cel-go@v0.26.0/parser/gen/CEL.g4
"""

from __future__ import annotations

from collections.abc import Mapping

from kube_fairlead_apiserver.cel import errors, escaping, lexer, literals, macros, nodes

__all__ = ["DEPTH_MAX", "SOURCE_CHARACTERS_MAX", "parse", "too_deep"]

SOURCE_CHARACTERS_MAX = 100_000  # cel-go's limits
DEPTH_MAX = 250

_POWER = {"?": 1, "||": 2, "&&": 3, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_POWER |= dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 4)
_OPERATOR_NAMES = {symbol: f"_{symbol}_" for symbol in _POWER} | {"in": "@in"}
_OPERAND_STARTS = frozenset({
    *("[", "{", "(", ".", "-", "!", "true", "false", "null"),
    *("NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER"),
})  # fmt: skip
_SIGNED = frozenset({"NUM_INT", "NUM_FLOAT"})
_OPERAND_EXPECTED = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


class _SyntaxStop(Exception):
    """Ends parsing after the first syntax error, which is already reported."""


def parse(
    source: str,
    expanders: Mapping[macros.Key, macros.Expander],
    *,
    backtick_identifiers: bool = False,
) -> nodes.Expr:
    """Parse one expression and expand the given macros."""
    issues = errors.IssueLog(source)
    if len(source) > SOURCE_CHARACTERS_MAX:
        text = f"expression code point size exceeds limit: size: {len(source)}, limit {SOURCE_CHARACTERS_MAX}"
        raise errors.CompileError([errors.Issue(0, 0, text)])
    try:
        root = _Parser(source, issues, expanders, backtick_identifiers=backtick_identifiers).whole()
    except _SyntaxStop:
        issues.raise_if_any()
        raise
    issues.raise_if_any()
    _check_depth(root)
    return root


def too_deep() -> errors.CompileError:
    """Report that an expression nests deeper than DEPTH_MAX."""
    return errors.CompileError([errors.Issue(0, 0, f"expression recursion limit exceeded: {DEPTH_MAX}")])


def _check_depth(root: nodes.Expr) -> None:
    level = [root]
    depth = 0
    while level:
        depth += 1
        if depth > DEPTH_MAX:
            raise too_deep()
        level = [child for node in level for child in nodes.children(node)]


class _Parser:
    def __init__(
        self,
        source: str,
        issues: errors.IssueLog,
        expanders: Mapping[macros.Key, macros.Expander],
        *,
        backtick_identifiers: bool,
    ) -> None:
        self._issues = issues
        self._expanders = expanders
        self._backticks = backtick_identifiers
        self._tokens = lexer.tokenize(source, issues)
        self._index = 0
        self._token = self._tokens[0]
        self._depth = 0

    def whole(self) -> nodes.Expr:
        root = self._expression()
        if self._token.kind != lexer.END:
            self._unexpected("<EOF>", lexer.END)
        return root

    # Token handling.

    def _advance(self) -> lexer.Token:
        token = self._token
        self._index += 1
        self._token = self._tokens[min(self._index, len(self._tokens) - 1)]
        return token

    def _accept(self, kind: str) -> lexer.Token | None:
        return self._advance() if self._token.kind == kind else None

    def _expect(self, kind: str, *, after_element: bool = False) -> lexer.Token:
        if self._token.kind == kind:
            return self._advance()
        if self._token.kind == lexer.END and kind != ":" and not after_element:
            self._stop(f"missing '{kind}' at '<EOF>'")
        if kind == ":" and self._token.kind in _OPERAND_STARTS:
            self._stop(f"missing ':' at '{self._token.text}'")
        self._unexpected(f"{{'{kind}', ','}}" if after_element else f"'{kind}'", kind)
        raise AssertionError  # _unexpected always stops

    def _unexpected(self, expected: str, kind: str) -> None:
        """Report an error as ANTLR does: extraneous if parsing could continue without this token, else mismatched."""
        following = self._tokens[min(self._index + 1, len(self._tokens) - 1)].kind
        helps = following in _OPERAND_STARTS if expected is _OPERAND_EXPECTED else following == kind
        word = "extraneous" if helps and self._token.kind != lexer.END else "mismatched"
        self._stop(f"{word} input '{self._token.text}' expecting {expected}")

    def _stop(self, text: str) -> None:
        self._issues.report(self._token.offset, f"Syntax error: {text}")
        raise _SyntaxStop

    # Grammar.

    def _expression(self, floor: int = 1) -> nodes.Expr:
        """Parse an operand and every following operator that binds at least as strongly as ``floor``."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise too_deep()
        left = self._operand()
        while True:
            symbol = self._token.kind
            power = _POWER.get(symbol, 0)
            if power < floor:
                break
            offset = self._advance().offset
            if symbol == "?":
                chosen = self._expression(2)
                self._expect(":")
                left = nodes.Call(offset, "_?_:_", None, [left, chosen, self._expression(1)])
            elif symbol in {"&&", "||"}:
                # All terms of a chain are siblings: errors and order are treated alike for each of them.
                terms = [left, self._expression(power + 1)]
                while self._accept(symbol):
                    terms.append(self._expression(power + 1))
                left = nodes.Call(offset, _OPERATOR_NAMES[symbol], None, terms)
            else:
                left = nodes.Call(offset, _OPERATOR_NAMES[symbol], None, [left, self._expression(power + 1)])
        self._depth -= 1
        return left

    def _operand(self) -> nodes.Expr:
        """Parse prefix operators, a primary, then selections, calls and indexes."""
        first = self._token
        count = 0
        while first.kind in {"-", "!"} and self._token.kind == first.kind:
            self._advance()
            count += 1
        sign: lexer.Token | None = None
        if first.kind == "-" and count == 1 and self._token.kind in _SIGNED:
            sign = first  # part of the literal, so that the smallest int can be written
            count = 0
        elif first.kind == "!" and self._token.kind == "-":
            sign = self._advance()
            if self._token.kind not in _SIGNED:
                self._unexpected(_OPERAND_EXPECTED, "")
        node = self._primary(sign)
        while self._token.kind in {".", "[", "{"}:
            if self._token.kind == ".":
                node = self._member(node)
            elif self._token.kind == "[":
                node = self._index_of(node)
            elif (name := nodes.qualified_name(node)) is not None:
                node = self._struct(name)
            else:
                break
        if count % 2:
            node = nodes.Call(first.offset, "!_" if first.kind == "!" else "-_", None, [node])
        return node

    def _member(self, operand: nodes.Expr) -> nodes.Expr:
        dot = self._advance()
        optional = self._accept("?") is not None
        token = self._token
        if token.kind == "ESC_IDENTIFIER":
            self._advance()
            if not self._backticks:
                self._issues.report(token.offset, "unsupported syntax: '`'")
            return nodes.Select(dot.offset, operand, token.text[1:-1], optional=optional)
        if token.kind != "IDENTIFIER":
            self._stop(f"no viable alternative at input '.{'' if token.kind == lexer.END else token.text}'")
        self._advance()
        if self._token.kind == "(" and not optional:
            offset = self._token.offset
            return self._call(offset, token.text, operand, self._arguments())
        return nodes.Select(dot.offset, operand, token.text, optional=optional)

    def _index_of(self, operand: nodes.Expr) -> nodes.Expr:
        bracket = self._advance()
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._expression()
        self._expect("]")
        return nodes.Call(bracket.offset, function, None, [operand, index])

    def _primary(self, sign: lexer.Token | None) -> nodes.Expr:
        token = self._token
        match token.kind:
            case "(":
                self._advance()
                inner = self._expression()
                self._expect(")")
                return inner
            case "[":
                return self._list()
            case "{":
                self._advance()
                return nodes.MapLiteral(token.offset, self._entries(fields=False))
            case "." | "IDENTIFIER":
                return self._name()
            case kind if kind in _OPERAND_STARTS - {"-", "!"}:
                self._advance()
                return self._literal(token, sign)
            case _:
                self._unexpected(_OPERAND_EXPECTED, "")
                raise AssertionError  # _unexpected always stops

    def _literal(self, token: lexer.Token, sign: lexer.Token | None) -> nodes.Expr:
        value: object
        negative = sign is not None
        offset = token.offset if sign is None else sign.offset
        try:
            match token.kind:
                case "NUM_INT":
                    value = literals.int_value(token.text, negative=negative)
                case "NUM_FLOAT":
                    value = literals.double_value(token.text, negative=negative)
                case "NUM_UINT":
                    value = literals.uint_value(token.text)
                case "STRING":
                    value = literals.string_value(token.text)
                case "BYTES":
                    value = literals.bytes_value(token.text)
                case kind:
                    value = {"true": True, "false": False}.get(kind)
        except literals.LiteralError as error:
            self._issues.report(offset, str(error))
            value = None
        return nodes.Literal(offset, value)

    def _name(self) -> nodes.Expr:
        prefix = "." if self._accept(".") else ""
        if self._token.kind != "IDENTIFIER":
            text = "" if self._token.kind == lexer.END else self._token.text
            self._stop(f"no viable alternative at input '.{text}'")
        token = self._advance()
        if token.text in escaping.RESERVED:
            self._issues.report(token.offset - len(prefix), f"reserved identifier: {token.text}")
        if self._token.kind == "(":
            offset = self._token.offset
            return self._call(offset, prefix + token.text, None, self._arguments())
        return nodes.Ident(token.offset, prefix + token.text)

    def _arguments(self) -> list[nodes.Expr]:
        self._advance()
        arguments: list[nodes.Expr] = []
        if self._accept(")"):
            return arguments
        while True:
            arguments.append(self._expression())
            if not self._accept(","):
                break
        self._expect(")")
        return arguments

    def _list(self) -> nodes.Expr:
        bracket = self._advance()
        elements: list[nodes.Expr] = []
        optional: set[int] = set()
        while self._token.kind not in {"]", lexer.END}:
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]", after_element=bool(elements) and self._tokens[self._index - 1].kind != ",")
        return nodes.ListLiteral(bracket.offset, elements, frozenset(optional))

    def _struct(self, name: str) -> nodes.Expr:
        brace = self._advance()
        return nodes.StructLiteral(brace.offset, name, self._entries(fields=True))

    def _entries(self, *, fields: bool) -> list[nodes.Entry]:
        entries: list[nodes.Entry] = []
        while self._token.kind not in {"}", lexer.END}:
            optional = self._accept("?") is not None
            if fields and self._token.kind in {"IDENTIFIER", "ESC_IDENTIFIER"}:
                token = self._advance()
                key: nodes.Expr = nodes.Literal(token.offset, token.text.strip("`"))
            else:
                key = self._expression()
            colon = self._expect(":")
            entries.append(nodes.Entry(colon.offset, key, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}", after_element=bool(entries) and self._tokens[self._index - 1].kind != ",")
        return entries

    def _call(self, offset: int, function: str, target: nodes.Expr | None, arguments: list[nodes.Expr]) -> nodes.Expr:
        member = target is not None
        expander = self._expanders.get((function, len(arguments), member))
        expander = expander or self._expanders.get((function, macros.ANY_COUNT, member))
        if expander is not None:
            try:
                expanded = expander(offset, target, arguments)
            except macros.MacroError as error:
                self._issues.report(error.offset, str(error))
                return nodes.Literal(offset, None)
            if expanded is not None:
                return expanded
        return nodes.Call(offset, function, target, arguments)
