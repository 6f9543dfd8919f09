"""Machines listed in a file: on-prem, labs, tests. The file is watched: every question sees its newest content.

    platforms: [on-prem]             # the schemes that this inventory answers for
    instances:
    - name: rack1-a                  # the node's name
      providerID: on-prem://rack1/a  # the first platform and the name, unless given
      type: r640
      zone: rack1
      region: berlin
      shutdown: false
      addresses: [{type: InternalIP, address: 10.0.0.5}]
      labels: {example.com/row: "7"}
    ...                              # the end, for a file that is changed in place

A machine that is taken out of the file is gone. A file that cannot be read, or is not wholly right, is an outage: no
machine is gone because of it. Half a file can be right too, so a new one should take the place of the old one by a
rename. One that was written over in place counts only if it ends as YAML lets a document end, with `...`; and one
that once ended so always must.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from kube_fairlead.api.core_v1 import Node, NodeAddress
from kube_fairlead.api.yamltext import parser
from kube_fairlead.cloud.cluster import Cluster
from kube_fairlead.cloud.errors import CloudUnavailable, ForeignId, ProviderError
from kube_fairlead.cloud.ownership import PlatformError, parse_platforms, platform_of_provider_id
from kube_fairlead.cloud.provider import Instance, InstanceQuery, Instances, ProviderSettings
from kube_fairlead.cloud.threads import Threads

__all__ = ["StaticProvider", "provider"]


class _Address(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    address: str


class _Machine(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    provider_id: str = msgspec.field(name="providerID", default="")
    type: str = ""
    zone: str = ""
    region: str = ""
    shutdown: bool = False
    addresses: list[_Address] = []
    labels: dict[str, str] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True):
    platforms: list[str]
    instances: list[_Machine]


class _Inventory:
    """What one content of the file says."""

    def __init__(self, text: str) -> None:
        try:
            file = msgspec.convert(parser.read(text), _File)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from error
        self.platforms = parse_platforms(file.platforms)
        if not file.platforms:
            raise ValueError("platforms must name at least one")
        self.by_id: dict[str, Instance] = {}
        self.by_name: dict[str, Instance] = {}
        for machine in file.instances:
            self._add(machine, file.platforms[0].strip())

    def _add(self, machine: _Machine, default_platform: str) -> None:
        provider_id = machine.provider_id or f"{default_platform}://{machine.name}"
        if platform_of_provider_id(provider_id) not in self.platforms:
            raise ValueError(f"providerID {provider_id!r} of {machine.name} is of none of the platforms")
        if provider_id in self.by_id or machine.name in self.by_name:
            raise ValueError(f"{machine.name} ({provider_id}) is there twice")
        instance = Instance(
            provider_id=provider_id,
            shutdown=machine.shutdown,
            instance_type=machine.type,
            addresses=tuple(NodeAddress(type=one.type, address=one.address) for one in machine.addresses),
            zone=machine.zone,
            region=machine.region,
            additional_labels=machine.labels,
        )
        self.by_id[provider_id] = self.by_name[machine.name] = instance


class _Held:
    """Which file was read. It is held open, for as long as it is the last one: so no other can get its inode."""

    def __init__(self, descriptor: int) -> None:
        held = os.dup(descriptor)
        weakref.finalize(self, os.close, held)
        self._status = os.fstat(held)

    def is_same(self, status: os.stat_result) -> bool:
        return os.path.samestat(self._status, status)


class StaticProvider:
    """An inventory file as a cloud. It has machines, and neither routes nor load balancers."""

    name = "static"
    zones = None
    routes = None
    load_balancers = None
    platforms_are_configured = True  # another inventory has others, and a manager of its own

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._threads = Threads("static", number=1)
        self._file: _Held | None = None  # which file it was, as long as we look
        self._seen: tuple[int, int, int, int] | None = None  # how it was
        self._demands_end = False  # once it had an end it always must
        self._inventory: _Inventory | None = None
        try:
            # Fixed at the start: a file that is changed later must not make a manager answer for more.
            self._platforms = self._read().platforms
        except CloudUnavailable as error:
            raise ProviderError(f"--cloud-config: {error}") from error
        finally:
            self._file = None

    @property
    def instances(self) -> Instances:
        """The machines in the file."""
        return self

    def supported_platforms(self) -> frozenset[str]:
        """The platforms that the file named when we started."""
        return self._platforms

    @contextlib.asynccontextmanager
    async def running(self, cluster: Cluster) -> AsyncIterator[None]:
        """Holds the file, and a thread: to read thousands of machines takes a while."""
        del cluster
        async with self._threads:
            try:
                # From here on a write in place is noticed.
                with contextlib.suppress(CloudUnavailable):
                    await self._threads.run(self._read)
                yield
            finally:
                self._file = None

    async def describe(self, queries: Sequence[InstanceQuery]) -> Mapping[InstanceQuery, Instance]:
        """Those that are in the file: by id, or by name for a node that has no id yet."""
        inventory = await self._threads.run(self._read)
        found: dict[InstanceQuery, Instance] = {}
        for query in queries:
            known = inventory.by_id if query.provider_id else inventory.by_name
            if instance := known.get(query.provider_id or query.node_name):
                found[query] = instance
        return found

    def recognises(self, provider_id: str) -> bool:
        """Any id of its platforms."""
        return platform_of_provider_id(provider_id) in self._platforms

    async def exists(self, provider_id: str, node: Node) -> bool:
        """Whether the file has it."""
        del node
        if not self.recognises(provider_id):
            raise ForeignId(provider_id, f"the inventory is of {', '.join(sorted(self._platforms))}")
        return provider_id in (await self._threads.run(self._read)).by_id

    async def which_exist(self, nodes: Mapping[str, Node]) -> Mapping[str, bool]:
        """Which of them the file has."""
        inventory = await self._threads.run(self._read)
        return {one: one in inventory.by_id for one in nodes if self.recognises(one)}

    def _read(self) -> _Inventory:
        try:
            with self._path.open(encoding="utf-8") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
                if self._file is None or not self._file.is_same(status):
                    self._file = _Held(file.fileno())
                    if seen != self._seen:
                        self._seen, self._inventory = seen, None
                if self._inventory is None or seen != self._seen:
                    self._inventory = self._parse(file.read(), in_place=seen != self._seen)
                    self._seen = seen
        except (OSError, UnicodeDecodeError, ValueError, PlatformError) as error:
            # What it said before may no longer be so: better no answer than an old one.
            self._inventory = None
            raise CloudUnavailable(f"inventory {self._path} cannot be read: {error}") from error
        return self._inventory

    def _parse(self, text: str, *, in_place: bool) -> _Inventory:
        has_end = text.rstrip().endswith("\n...")
        if (in_place or self._demands_end) and not has_end:
            raise ValueError("it does not end with '...' and may not be whole; better replace it by a rename")
        inventory = _Inventory(text)
        self._demands_end = has_end
        return inventory


def provider(settings: ProviderSettings) -> StaticProvider:
    """What the entry point names."""
    if settings.cloud_config is None:
        raise ProviderError("cloud provider static needs --cloud-config: the inventory file")
    return StaticProvider(settings.cloud_config)
