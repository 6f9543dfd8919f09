"""Runs a driver as a program: flags, logs and signals."""

from __future__ import annotations

import argparse
import asyncio
import functools
import signal
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kube_fairlead import client
from kube_fairlead.base import logs
from kube_fairlead.base.certificates import LibraryMissing
from kube_fairlead.base.metrics import Metrics, PrometheusMetrics
from kube_fairlead.client.errors import ClientError
from kube_fairlead.driverapi import socket_addresses
from kube_fairlead.drivers.sdk import sockets
from kube_fairlead.drivers.sdk.driver import Driver
from kube_fairlead.drivers.sdk.pages import pages
from kube_fairlead.drivers.sdk.serving import Options, serving
from kube_fairlead.manager import ALWAYS_ALLOWED, ServingOptions

__all__ = ["main"]

_PORT_MAX: Final = 65535


def main(driver: Driver, arguments: Sequence[str] | None = None, *, metrics: Metrics | None = None) -> None:
    """Serve a driver until SIGTERM or SIGINT, with the flags of every driver.

    Args:
        driver: the driver to serve.
        arguments: the command line; that of the process unless given.
        metrics: the driver's own metrics; `/metrics` shows them with the SDK's.
    """
    parser = _parser(driver)
    flags = parser.parse_args(arguments)
    logs.configure(output="json" if flags.logging_format == "json" else "human")
    if flags.secure_port and (problem := _problem(flags)):
        parser.error(problem)
    options = Options(
        registry=flags.registry_dir,
        plugins=flags.plugin_dir,
        instance=flags.instance,
        grace_seconds=flags.grace_seconds,
        pages=_pages(flags) if flags.secure_port else None,
    )
    try:
        socket_addresses.check_folder(options.registry, flag="--registry-dir")
        socket_addresses.check_folder(options.plugins_folder, flag="--plugin-dir")
    except socket_addresses.AddressTooLong as error:
        parser.error(str(error))
    if metrics is None and options.pages is not None:
        metrics = PrometheusMetrics(process_metrics=True)
    try:
        asyncio.run(_until_signalled(driver, options, metrics))
    except (socket_addresses.AddressTaken, ClientError, LibraryMissing, OSError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")


def _parser(driver: Driver) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=f"Lifecycle driver {driver.name}.")
    parser.add_argument(
        "--registry-dir",
        type=Path,
        default=sockets.DEFAULT_REGISTRY,
        help="folder for the registration socket, the same as the agent's; default: %(default)s",
    )
    parser.add_argument(
        "--plugin-dir", type=Path, help="folder for the service socket; default: plugins beside the registry"
    )
    parser.add_argument(
        "--instance", default="", help="unique name among the processes of this driver, such as the pod's uid"
    )
    parser.add_argument(
        "--grace-seconds",
        type=float,
        default=10.0,
        help="seconds that running calls may take after SIGTERM before they are cancelled; default: %(default)s",
    )
    parser.add_argument("--logging-format", choices=["text", "json"], default="text")
    served = parser.add_argument_group("probes and metrics")
    served.add_argument("--bind-address", default="127.0.0.1", help="the address to listen on; default: %(default)s")
    served.add_argument("--secure-port", type=_port, default=0, help="the port to listen on; 0, the default: none")
    served.add_argument("--tls-cert-file", type=Path, help="the certificate; default: self-signed, created at start")
    served.add_argument("--tls-private-key-file", type=Path, help="the private key of --tls-cert-file")
    served.add_argument("--cert-dir", type=Path, help="folder for the self-signed certificate; default: in memory")
    served.add_argument(
        "--authorization-always-allow-paths",
        type=_paths,
        default=",".join(ALWAYS_ALLOWED),
        help="comma-separated paths that need no token; *: all, and no API server is needed; default: %(default)s",
    )
    served.add_argument(
        "--kubeconfig", type=Path, help="kubeconfig of the API server that authenticates callers; default: as kubectl"
    )
    return parser


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > _PORT_MAX:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {_PORT_MAX}, got {text!r}")
    return int(text)


def _paths(text: str) -> tuple[str, ...]:
    paths = tuple(path.strip() for path in text.split(",") if path.strip())
    for path in paths:
        if not path.startswith("/") and path != "*":
            raise argparse.ArgumentTypeError(f"{path!r} must begin with a slash, or be *")
    return paths


def _problem(flags: argparse.Namespace) -> str:
    """Why these flags cannot be used; empty if they can."""
    certificate, key, folder = flags.tls_cert_file, flags.tls_private_key_file, flags.cert_dir
    if bool(certificate) is not bool(key):
        return "--tls-cert-file and --tls-private-key-file: set both or neither"
    if certificate:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
        except OSError as error:
            return (
                f"--tls-cert-file {certificate}, --tls-private-key-file {key}: not a certificate and its key: {error}"
            )
    elif folder:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            return f"--cert-dir: {folder} cannot be created: {error.strerror or error}"
    return ""


def _pages(flags: argparse.Namespace) -> ServingOptions:
    return pages(
        flags.secure_port,
        bind_address=flags.bind_address,
        certificate_file=flags.tls_cert_file,
        key_file=flags.tls_private_key_file,
        folder=flags.cert_dir,
        always_allow=flags.authorization_always_allow_paths,
        connect=functools.partial(client.connect, kubeconfig_path=flags.kubeconfig),
    )


async def _until_signalled(driver: Driver, options: Options, metrics: Metrics | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(driver, options, metrics=metrics):
        await stop.wait()
