"""What the value of a flag may be. Each kind is checked as it is read: a bad one is refused before anything begins.

A refusal names the flag, says what is wrong and what would be right, and is bad usage (exit code 2).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

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
    "discovered_group",
    "image",
    "installed_group",
    "label",
    "lifecycle_group",
    "make_folder",
    "optional_subdomain",
    "pem_certificates",
    "platform",
    "selector",
    "subdomain",
]

_F = TypeVar("_F", bound=Callable[..., Any])


class _Path(click.Path):
    """A path, which an empty text is not: a variable that is not set must not mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty; name a path, or leave the flag out", param, ctx)
        return super().convert(value, param, ctx)


FILE = _Path(path_type=pathlib.Path, exists=True, dir_okay=False)
FOLDER = _Path(path_type=pathlib.Path, file_okay=False)
NEW_FILE = _Path(path_type=pathlib.Path, dir_okay=False)
PATH = _Path(path_type=pathlib.Path)


def lifecycle_group(command: _F) -> _F:
    """`--lifecycle-api-group`, of the two that can be served."""
    from kube_fairlead.api import reserved

    return click.option(
        "--lifecycle-api-group",
        type=click.Choice([reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE]),
        default=reserved.LIFECYCLE_GROUP,
        show_default=True,
        help="The API group of LifecycleTransition and LifecycleEvent.",
    )(command)


def discovered_group(command: _F) -> _F:
    """`--lifecycle-api-group` of a command that asks the server which one it serves."""
    from kube_fairlead.api import reserved

    return click.option(
        "--lifecycle-api-group",
        type=click.Choice([reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE]),
        default=None,
        help="The API group of LifecycleTransition and LifecycleEvent [default: the one that the API server serves].",
    )(command)


def installed_group(command: _F) -> _F:
    """`--lifecycle-api-group` of the command that installs the kinds; to remove them it asks the server."""
    from kube_fairlead.api import reserved

    return click.option(
        "--lifecycle-api-group",
        type=click.Choice([reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE]),
        default=None,
        help=f"The API group of LifecycleTransition and LifecycleEvent [default: {reserved.LIFECYCLE_GROUP}; "
        "for --uninstall: the one that the API server serves].",
    )(command)


def subdomain(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for the name of a node, a Lease or another object."""
    if problems := names.dns1123_subdomain(value):
        raise click.BadParameter(f"{value!r} is no name of an object: {'; '.join(problems)}", ctx, parameter)
    return value


def optional_subdomain(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for such a name that need not be given."""
    return subdomain(ctx, parameter, value) if value else value


def label(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for the name of a namespace."""
    if problems := names.dns1123_label(value):
        raise click.BadParameter(f"{value!r} is no namespace: {'; '.join(problems)}", ctx, parameter)
    return value


def platform(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for a cloud's name, as providerIDs begin with it; empty: none."""
    from kube_fairlead.cloud.ownership import PlatformError, parse_platforms

    try:
        parse_platforms([value] if value else [])
    except PlatformError as error:
        raise click.BadParameter(str(error), ctx, parameter) from error
    return value


def cidrs(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for ranges of addresses: one, or one of each family; empty: none."""
    from kube_fairlead.cloud.decisions.routes import parse_networks

    try:
        parse_networks(value) if value else None
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; such as 10.244.0.0/16 or 10.244.0.0/16,fd00::/48", ctx, parameter
        ) from error
    return value


def selector(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for a label selector; empty: none."""
    from kube_fairlead.api.selectors import parse_label_selector

    try:
        parse_label_selector(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} selects nothing: {error}; such as pool=web", ctx, parameter) from error
    return value


def bind_address(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for what to listen on: an address, or a host's name."""
    if names.ip_address(value) and names.dns1123_subdomain(value):
        said = f"{value!r} is neither an address nor a host's name; 0.0.0.0 and :: are all addresses"
        raise click.BadParameter(said, ctx, parameter)
    return value


def make_folder(flag: str, folder: pathlib.Path) -> None:
    """Make a folder that the process will need, as long as its flag can still be named.

    Raises:
        click.UsageError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{flag}: {folder} cannot be made: {error.strerror or error}") from error


def image(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    """A callback for a container image; empty: the default, or none."""
    if any(letter.isspace() for letter in value):
        raise click.BadParameter(f"{value!r} is no image such as registry.example.com/fairlead:0.1", ctx, parameter)
    return value


def controllers(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[str, ...]:
    """A callback for names of controllers with commas between them: at least one, or what is the process for?"""
    listed = tuple(part.strip() for part in value.split(",") if part.strip())
    if not listed:
        raise click.BadParameter("it names none; '*' is all that run by default", ctx, parameter)
    return listed


def pem_certificates(ctx: click.Context, parameter: click.Parameter, value: pathlib.Path | None) -> pathlib.Path | None:
    """A callback for a file of certificates to trust."""
    import ssl

    if value is not None and _pem_problem(lambda: ssl.create_default_context(cafile=str(value))):
        raise click.BadParameter(
            f"{value} holds no certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----", ctx, parameter
        )
    return value


def check_key_pair(certificate: pathlib.Path, key: pathlib.Path) -> None:
    """Refuse `--tls-cert-file` and `--tls-private-key-file` that no server could show.

    Raises:
        click.UsageError: one is not what it should be, or they do not belong together.
    """
    import ssl

    if _pem_problem(lambda: ssl.create_default_context(cafile=str(certificate))):
        raise click.UsageError(f"--tls-cert-file: {certificate} holds no certificate in PEM form")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    problem = _pem_problem(lambda: context.load_cert_chain(certificate, key, password=_no_password))
    if "KEY_VALUES_MISMATCH" in problem or "KEY_TYPE_MISMATCH" in problem:
        raise click.UsageError(f"--tls-private-key-file: {key} is not the key of the certificate in {certificate}")
    if problem:
        raise click.UsageError(f"--tls-private-key-file: {key} holds no private key in PEM form without a password")


def _no_password() -> str:
    # Else OpenSSL would ask for one at the terminal.
    raise ValueError("it has a password")


def _pem_problem(load: Callable[[], object]) -> str:
    try:
        load()
    except (OSError, ValueError) as error:  # what OpenSSL says is an OSError too
        return str(error)
    return ""
