"""Resource quantities (`100m`, `1.5Gi`, `12e6`), exact as Kubernetes' own.

The number is an integer times a power of ten, never a float, and never finer than a nano: what is finer is rounded up,
away from zero. The suffix's family is remembered and used again when the quantity is written.

Three deliberate differences from Go, none within reach of a real resource. A decimal amount of 1000E and more is
written with the suffix `E`, where Go forgets the suffix and so writes another number. Whole values never overflow.
Numbers of thousands of digits are refused, since they only serve to keep a server busy.

Upstream: k8s.io/apimachinery@v0.36.4/pkg/api/resource/quantity.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/resource/suffix.go,
    k8s.io/apimachinery@v0.36.4/pkg/api/resource/amount.go
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Final

__all__ = ["Format", "Quantity", "QuantityError"]


class QuantityError(ValueError):
    """Raised when a text is no quantity; the message is Kubernetes'."""


class Format(enum.Enum):
    """The family of suffixes a quantity was written with."""

    DECIMAL_EXPONENT = "DecimalExponent"  # 12e6
    BINARY_SI = "BinarySI"  # 12Mi
    DECIMAL_SI = "DecimalSI"  # 12M


_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_FORMAT_WRONG: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_SUFFIX_WRONG: Final = "unable to parse quantity's suffix"
_NUMBER_WRONG: Final = "unable to parse numeric part of quantity"

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIX: Final = ("", *_BINARY)
_NANO: Final = -9
_MAX_BINARY: Final = 2**63 - 1
_MAX_DIGITS: Final = 1_000
_COMMON_LENGTH: Final = 16


@functools.total_ordering
class Quantity:
    """An exact amount: `unscaled * 10**scale`, and the family of suffixes to write it with.

    Equality and order are by amount alone: `1Ki == 1024`.
    """

    __slots__ = ("_text", "family", "scale", "unscaled")

    def __init__(self, unscaled: int, *, scale: int = 0, family: Format = Format.DECIMAL_SI) -> None:
        while unscaled and unscaled % 10 == 0:
            unscaled //= 10
            scale += 1
        # Without trailing zeros the pair is unique for an amount, so equality and hash can use it.
        self.unscaled = unscaled
        self.scale = scale if unscaled else 0
        self.family = family
        self._text = ""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity; a QuantityError says what is wrong."""
        # A cluster's pods request a few amounts again and again. Long texts are not kept in memory.
        return _parse_common(text) if len(text) <= _COMMON_LENGTH else cls._parse(text)

    @classmethod
    def _parse(cls, text: str) -> Quantity:
        match = _SHAPE.fullmatch(text)
        if match is None or not text:
            raise QuantityError(_FORMAT_WRONG)
        sign, whole, fraction, suffix = match.groups(default="")
        whole = whole.lstrip("0")
        if len(whole) + len(fraction) > _MAX_DIGITS:
            raise QuantityError(_NUMBER_WRONG)
        unscaled = int(whole + fraction or "0")
        family, power = _interpret(suffix)
        scale = -len(fraction)
        if family is Format.BINARY_SI:
            unscaled <<= power
        else:
            scale += power
        unscaled, scale = _round_up(unscaled, scale, _NANO)
        if family is Format.BINARY_SI:
            nanos = min(unscaled * 10 ** (scale - _NANO), _MAX_BINARY * 10**9)
            unscaled, scale = nanos, _NANO
            if 0 < nanos < 10**9:
                family = Format.DECIMAL_SI
        quantity = cls(-unscaled if sign == "-" else unscaled, scale=scale, family=family)
        if _keeps_spelling(whole or "0", fraction, family, power):
            quantity._text = text
        return quantity

    def __str__(self) -> str:
        """The wire form. A parsed quantity that was as good as canonical keeps its spelling (`1.500`), as in Go."""
        if not self._text:
            self._text = self.canonical()
        return self._text

    def __repr__(self) -> str:
        return f"Quantity.parse({str(self)!r})"

    def canonical(self) -> str:
        """The canonical form: no fraction, and the largest suffix of the family that loses nothing."""
        if not self.unscaled:
            return "0"
        if self.family is Format.BINARY_SI and self.scale >= 0:
            amount = self.unscaled * 10**self.scale
            if abs(amount) >= 1024:
                step = 0
                while amount % 1024 == 0 and step < len(_BINARY):
                    amount //= 1024
                    step += 1
                return f"{amount}{_BINARY_SUFFIX[step]}"
        exponent = self.scale - self.scale % 3
        if self.family is Format.DECIMAL_EXPONENT:
            suffix = f"e{exponent}" if exponent else ""
        else:
            exponent = min(exponent, _DECIMAL["E"])
            suffix = _DECIMAL_SUFFIX[exponent]
        return f"{self.unscaled * 10 ** (self.scale - exponent)}{suffix}"

    def value(self) -> int:
        """The amount as a whole number, rounded away from zero."""
        return self.scaled_value(0)

    def scaled_value(self, scale: int) -> int:
        """The amount in units of `10**scale`, rounded away from zero."""
        rounded, rest = _round_up(abs(self.unscaled), self.scale, scale)
        amount = rounded * _power(rest - scale)
        return -amount if self.unscaled < 0 else amount

    def __add__(self, other: Quantity) -> Quantity:
        scale = min(self.scale, other.scale)
        total = self._aligned(scale) + other._aligned(scale)
        return Quantity(total, scale=scale, family=self.family if self.unscaled else other.family)

    def __sub__(self, other: Quantity) -> Quantity:
        return self + -other

    def __neg__(self) -> Quantity:
        return Quantity(-self.unscaled, scale=self.scale, family=self.family)

    def __bool__(self) -> bool:
        return self.unscaled != 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.unscaled == other.unscaled and self.scale == other.scale

    def __lt__(self, other: Quantity) -> bool:
        scale = min(self.scale, other.scale)
        return self._aligned(scale) < other._aligned(scale)

    def __hash__(self) -> int:
        return hash((self.unscaled, self.scale))

    def _aligned(self, scale: int) -> int:
        return self.unscaled * _power(self.scale - scale)


@functools.lru_cache(1_024)
def _parse_common(text: str) -> Quantity:
    return Quantity._parse(text)  # noqa: SLF001 - its own module


def _power(exponent: int) -> int:
    # Typed here, because the type of `10**n` depends on the sign of n.
    return int(10**exponent) if exponent > 0 else 1


def _interpret(suffix: str) -> tuple[Format, int]:
    """The family of a suffix and its power of ten, or of two for the binary family."""
    if suffix in _DECIMAL:
        return Format.DECIMAL_SI, _DECIMAL[suffix]
    if suffix in _BINARY:
        return Format.BINARY_SI, _BINARY[suffix]
    if not re.fullmatch(r"[eE][-+]?[0-9]+", suffix):
        raise QuantityError(_SUFFIX_WRONG)
    digits = suffix[1:].lstrip("+-").lstrip("0") or "0"
    if len(digits) > len(str(_MAX_DIGITS)) or int(digits) > _MAX_DIGITS:
        raise QuantityError(_SUFFIX_WRONG)
    return Format.DECIMAL_EXPONENT, -int(digits) if suffix[1] == "-" else int(digits)


def _round_up(unscaled: int, scale: int, finest: int) -> tuple[int, int]:
    if scale >= finest:
        return unscaled, scale
    whole, rest = divmod(unscaled, 10 ** (finest - scale))
    return whole + (rest > 0), finest


def _keeps_spelling(whole: str, fraction: str, family: Format, power: int) -> bool:
    """Whether Go would write the text back unchanged: a shortcut of its parser that clients see on the wire."""
    digits = whole + fraction
    if family is Format.BINARY_SI:
        fits = 15 - len(whole) - power * 3 // 10 - 1 >= 0
        return fits and not fraction and int(whole) & 7 != 0
    scale = power - len(fraction)
    fits = len(digits) <= 18 and scale >= _NANO
    return fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
