"""Amazon's EC2 and load balancing on loopback: moto's own server, and a plain client to move machines with."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import boto3
from moto.server import ThreadedMotoServer
from werkzeug.serving import WSGIRequestHandler

__all__ = ["REGION", "EmulatedAws", "emulated_aws"]

REGION = "us-east-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class EmulatedAws:
    """A region with a default network. `ec2` and `elb` are Amazon's own clients, for what the outside world does."""

    def __init__(self, url: str) -> None:
        self.url = url
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        self.ec2 = boto3.client("ec2", region_name=REGION, endpoint_url=url, **keys)
        self.elb = boto3.client("elbv2", region_name=REGION, endpoint_url=url, **keys)
        self._image = self.ec2.describe_images()["Images"][0]["ImageId"]

    def launch(
        self, count: int = 1, *, tags: Mapping[str, str] | None = None, where: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Start machines; with these tags, and somewhere in particular if `where` says so."""
        described = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
        extra = {"TagSpecifications": [{"ResourceType": "instance", "Tags": described}]} if described else {}
        answer = self.ec2.run_instances(
            ImageId=self._image,
            MinCount=count,
            MaxCount=count,
            InstanceType="t3.micro",
            **extra,
            **(where or {}),
        )
        instances: list[dict[str, Any]] = answer["Instances"]
        return instances

    def stop(self, instance: str) -> None:
        self.ec2.stop_instances(InstanceIds=[instance])

    def terminate(self, instance: str) -> None:
        self.ec2.terminate_instances(InstanceIds=[instance])

    def write_config(self, path: pathlib.Path, *, url: str = "", **values: str) -> pathlib.Path:
        """A file for `--cloud-config` that leads here, or to a proxy in front."""
        lines = ["[Global]", f"Region = {REGION}", *(f"{key} = {value}" for key, value in values.items())]
        for service in ("ec2", "elasticloadbalancing"):
            lines += [f'[ServiceOverride "{service}"]', f"Service = {service}", f"URL = {url or self.url}"]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path


@contextlib.contextmanager
def emulated_aws() -> Iterator[EmulatedAws]:
    """Start it, and stop it whatever happens. What an earlier one in this process knew is forgotten."""
    # Its log lines would be all that one sees of a failed test.
    original, WSGIRequestHandler.log = WSGIRequestHandler.log, lambda *_: None  # type: ignore[method-assign]  # on purpose
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    try:
        server.start()
        host, port = server.get_host_and_port()
        aws = EmulatedAws(f"http://{host}:{port}")
        try:
            yield aws
        finally:
            aws.ec2.close()
            aws.elb.close()
    finally:
        _reset()
        server.stop()
        WSGIRequestHandler.log = original  # type: ignore[method-assign]  # as it was


def _reset() -> None:
    from moto.moto_api._internal.models import moto_api_backend

    moto_api_backend.reset()
