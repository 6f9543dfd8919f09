"""The file behind `--cloud-config`: the keys of upstream's cloud-provider-aws that mean something here.

[Global]
Region = eu-central-1
VPC = vpc-1
RouteTableID = rtb-1
SubnetID = subnet-1,subnet-2
KubernetesClusterID = prod

[ServiceOverride "1"]
Service = ec2
URL = https://ec2.internal.example
"""

from __future__ import annotations

import configparser
import dataclasses
from collections.abc import Mapping

from kube_fairlead.cloud.errors import ProviderError
from kube_fairlead.cloud.provider import ProviderSettings

__all__ = ["AwsConfig", "read_config"]

_KNOWN = frozenset({"zone", "region", "vpc", "subnetid", "routetableid", "kubernetesclustertag", "kubernetesclusterid"})
_SERVICES = {"ec2": "ec2", "elasticloadbalancing": "elbv2", "elbv2": "elbv2"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AwsConfig:
    """Where the cluster is in Amazon's cloud."""

    region: str
    vpc: str = ""
    route_table: str = ""
    subnets: tuple[str, ...] = ()
    cluster_id: str = ""  # instances and what we make carry the tag kubernetes.io/cluster/<id>
    endpoints: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def cluster_tag(self) -> str:
        """The tag that marks what is the cluster's; empty when nothing is."""
        return f"kubernetes.io/cluster/{self.cluster_id}" if self.cluster_id else ""


def read_config(settings: ProviderSettings) -> AwsConfig:
    """Read the file, if there is one.

    Raises:
        ProviderError: it cannot be read, has a key that means nothing here, or no region is to be found.
    """
    parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=("#", ";"))
    if settings.cloud_config is not None:
        try:
            parser.read_string(settings.cloud_config.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            said = " ".join(str(error).replace("<string>", settings.cloud_config.name).split())
            raise ProviderError(f"--cloud-config {settings.cloud_config} cannot be read: {said}") from error
    # Upstream's reader takes values with or without quotes.
    values = {key: value.strip('"') for key, value in parser.items("Global")} if parser.has_section("Global") else {}
    if unknown := sorted(set(values) - _KNOWN):
        raise ProviderError(
            f"--cloud-config: [Global] {', '.join(unknown)} is not supported; supported are {', '.join(sorted(_KNOWN))}"
        )
    endpoints = _endpoints(parser)
    environment = settings.environment
    region = (
        values.get("region")
        or values.get("zone", "").rstrip("abcdefghijklmnopqrstuvwxyz")
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
    )
    if not region:
        raise ProviderError("cloud provider aws needs a region: [Global] Region in --cloud-config, or AWS_REGION")
    return AwsConfig(
        region=region,
        vpc=values.get("vpc", ""),
        route_table=values.get("routetableid", ""),
        subnets=tuple(part.strip() for part in values.get("subnetid", "").split(",") if part.strip()),
        cluster_id=values.get("kubernetesclusterid") or values.get("kubernetesclustertag", ""),
        endpoints=endpoints,
    )


def _endpoints(parser: configparser.ConfigParser) -> dict[str, str]:
    endpoints: dict[str, str] = {}
    for section in parser.sections():
        if section == "Global":
            continue
        service, url = (parser.get(section, key, fallback="").strip('"') for key in ("Service", "URL"))
        if not section.startswith("ServiceOverride") or service not in _SERVICES or not url:
            raise ProviderError(
                f"--cloud-config: [{section}] is not supported; "
                f'use [ServiceOverride "1"] with Service ({" or ".join(sorted(_SERVICES))}) and URL'
            )
        endpoints[_SERVICES[service]] = url
    return endpoints
