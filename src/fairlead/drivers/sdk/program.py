"""A driver as a program of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from fairlead.base import logs
from fairlead.driverapi import addresses
from fairlead.drivers.sdk import sockets
from fairlead.drivers.sdk.driver import Driver
from fairlead.drivers.sdk.serving import Options, serving

__all__ = ["main"]


def main(driver: Driver, arguments: Sequence[str] | None = None) -> None:
    """Serve a driver until SIGTERM or SIGINT, with the flags that every driver has."""
    parser = argparse.ArgumentParser(description=f"Lifecycle driver {driver.name}.")
    parser.add_argument("--registry-dir", type=Path, default=sockets.DEFAULT_REGISTRY, help="the agent's folder")
    parser.add_argument("--plugin-dir", type=Path, help="where to serve; beside the registry by default")
    parser.add_argument("--instance", default="", help="tells processes of one driver apart, such as a pod's uid")
    parser.add_argument("--grace-seconds", type=float, default=10.0, help="for calls under way when asked to stop")
    parser.add_argument("--logging-format", choices=["text", "json"], default="text")
    flags = parser.parse_args(arguments)
    logs.configure(output="json" if flags.logging_format == "json" else "human")
    options = Options(
        registry=flags.registry_dir,
        plugins=flags.plugin_dir,
        instance=flags.instance,
        grace_seconds=flags.grace_seconds,
    )
    try:
        addresses.check_folder(options.registry, flag="--registry-dir")
        addresses.check_folder(options.plugins_folder, flag="--plugin-dir")
    except addresses.AddressTooLong as error:
        parser.error(str(error))
    try:
        asyncio.run(_until_signalled(driver, options))
    except addresses.AddressTaken as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")


async def _until_signalled(driver: Driver, options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(driver, options):
        await stop.wait()
