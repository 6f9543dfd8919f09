"""Checks of flag values: types and callbacks for click's options. They run before the command does anything.

An error names the flag, what is wrong and what is valid. It is a usage error (exit code 2). Flags are defined in
`shared_flags`, `manager_flags`, `nodes.node_flags` and in the modules of the commands.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import click

from kube_fairlead.api import names

__all__ = [
    "FILE",
    "FOLDER",
    "NEW_FILE",
    "PATH",
    "bind_address",
    "check_key_pair",
    "cidrs",
    "controllers",
    "duration",
    "duration_or_zero",
    "image",
    "label",
    "listed",
    "make_folder",
    "optional_duration",
    "optional_socket_folder",
    "optional_subdomain",
    "pem_certificates",
    "platform",
    "selector",
    "socket_folder",
    "subdomain",
]


class _Path(click.Path):
    """A path that is not empty: a shell variable that is not set must not select the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("must not be empty; set a path, or omit the flag", param, ctx)
        return super().convert(value, param, ctx)


FILE = _Path(path_type=pathlib.Path, exists=True, dir_okay=False)
FOLDER = _Path(path_type=pathlib.Path, file_okay=False)
NEW_FILE = _Path(path_type=pathlib.Path, dir_okay=False)
PATH = _Path(path_type=pathlib.Path)


def duration(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    """Check a positive duration in Go's notation, such as 1m30s; the command gets seconds."""
    from kube_fairlead.api.time import parse_duration

    try:
        seconds = parse_duration(value).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    if seconds <= 0:
        raise click.BadParameter("must be positive, such as 90s or 5m", ctx, parameter)
    return seconds


def duration_or_zero(ctx: click.Context, parameter: click.Parameter, value: str) -> float:
    """Check a duration that may be 0; the command gets seconds."""
    return 0.0 if value in {"0", "0s"} else duration(ctx, parameter, value)


def optional_duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Check a duration, if the flag is set."""
    return None if value is None else duration(ctx, parameter, value)


def listed(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Split comma-separated names."""
    del ctx, parameter
    return tuple(part.strip() for part in value.split(",") if part.strip())


def socket_folder(ctx: click.Context, parameter: click.Parameter, value: pathlib.Path) -> pathlib.Path:
    """Check a folder for sockets: a path that is too long for the sockets in it is rejected."""
    from kube_fairlead.driverapi import socket_addresses

    try:
        socket_addresses.check_folder(value, flag=parameter.opts[0])
    except socket_addresses.AddressTooLong as error:
        raise click.UsageError(str(error), ctx) from error
    return value


def optional_socket_folder(
    ctx: click.Context, parameter: click.Parameter, value: pathlib.Path | None
) -> pathlib.Path | None:
    """Check a folder for sockets, if the flag is set."""
    return None if value is None else socket_folder(ctx, parameter, value)


def subdomain(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check the name of a node, a Lease or another object."""
    if problems := names.dns1123_subdomain(value):
        raise click.BadParameter(f"{value!r} is not a valid name: {'; '.join(problems)}", ctx, parameter)
    return value


def optional_subdomain(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check the name of an object, or allow none."""
    return subdomain(ctx, parameter, value) if value else value


def label(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check the name of a namespace."""
    if problems := names.dns1123_label(value):
        raise click.BadParameter(f"{value!r} is not a valid namespace: {'; '.join(problems)}", ctx, parameter)
    return value


def platform(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a platform, the scheme of providerIDs, or allow none."""
    from kube_fairlead.cloud.ownership import PlatformError, parse_platforms

    try:
        parse_platforms([value] if value else [])
    except PlatformError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    return value


def cidrs(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check IP ranges: one, or one of each IP family, or none."""
    from kube_fairlead.cloud.decisions.routes import parse_networks

    try:
        parse_networks(value) if value else None
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; such as 10.244.0.0/16 or 10.244.0.0/16,fd00::/48", ctx, parameter
        ) from error
    return value


def selector(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a label selector, or allow none."""
    from kube_fairlead.api.selectors import parse_label_selector

    try:
        parse_label_selector(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is not a label selector such as pool=web: {error}", ctx, parameter
        ) from error
    return value


def bind_address(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check an IP address or a host name to listen on."""
    if names.ip_address(value) and names.dns1123_subdomain(value):
        problem = f"{value!r} is neither an IP address nor a host name; 0.0.0.0 and :: are all addresses"
        raise click.BadParameter(problem, ctx, parameter)
    return value


def make_folder(flag: str, folder: pathlib.Path) -> None:
    """Create a folder that the process needs. An error names the flag.

    Raises:
        click.UsageError: the folder cannot be created.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{flag}: {folder} cannot be created: {error.strerror or error}") from error


def image(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check a container image, or allow none."""
    if any(letter.isspace() for letter in value):
        raise click.BadParameter(
            f"{value!r} is not a container image such as registry.example.com/fairlead:0.1", ctx, parameter
        )
    return value


def controllers(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """Split comma-separated names of controllers; at least one is required."""
    names_of_controllers = listed(ctx, parameter, value)
    if not names_of_controllers:
        raise click.BadParameter("must name at least one controller; '*' is all that run by default", ctx, parameter)
    return names_of_controllers


def pem_certificates(ctx: click.Context, parameter: click.Parameter, value: pathlib.Path | None) -> pathlib.Path | None:
    """Check a file of CA certificates, if the flag is set."""
    import ssl

    if value is not None and _pem_problem(lambda: ssl.create_default_context(cafile=str(value))):
        raise click.BadParameter(
            f"{value} has no certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----", ctx, parameter
        )
    return value


def check_key_pair(certificate: pathlib.Path, key: pathlib.Path) -> None:
    """Check `--tls-cert-file` and `--tls-private-key-file`.

    Raises:
        click.UsageError: a file has another content, or the key does not match the certificate.
    """
    import ssl

    if _pem_problem(lambda: ssl.create_default_context(cafile=str(certificate))):
        raise click.UsageError(f"--tls-cert-file: {certificate} has no certificate in PEM form")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    problem = _pem_problem(lambda: context.load_cert_chain(certificate, key, password=_no_password))
    if "KEY_VALUES_MISMATCH" in problem or "KEY_TYPE_MISMATCH" in problem:
        raise click.UsageError(f"--tls-private-key-file: {key} is not the key of the certificate in {certificate}")
    if problem:
        raise click.UsageError(f"--tls-private-key-file: {key} has no private key in PEM form without a password")


def _no_password() -> str:
    # Without this, OpenSSL would prompt for a password at the terminal.
    raise ValueError("the key has a password")


def _pem_problem(load: Callable[[], object]) -> str:
    try:
        load()
    except (OSError, ValueError) as error:  # errors of OpenSSL are OSErrors
        return str(error)
    return ""
