"""The webhook's own certificates: stored in a Secret that its replicas share, and trusted by its registrations.

`certificate_rotation` decides what is renewed and when. This module stores the result, one replica at a time by the
Secret's resourceVersion. It writes the CA bundle into the registrations, and the serving pair into a folder that the
server reads again.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import pathlib
from typing import Final

from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.api.json_object import Json
from kube_fairlead.base import files, logs
from kube_fairlead.base.backoff import Backoff
from kube_fairlead.base.certificates import Pair
from kube_fairlead.client import errors
from kube_fairlead.client.client import Client
from kube_fairlead.client.patches import StrategicMergePatch
from kube_fairlead.webhook import certificate_rotation

__all__ = ["CertificateManager", "CertificateSettings"]


_SECRETS: Final = GroupVersionResource("", "v1", "secrets")
_REGISTRATIONS: Final = GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations")
_LOOK_SECONDS: Final = 10.0
_RETRY: Final = Backoff(initial_seconds=0.2, factor=2.0, cap_seconds=10.0, jitter=0.3)

_log = logs.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Where certificates are stored, and for which names."""

    namespace: str
    secret: str
    names: tuple[str, ...]  # DNS names of the webhook
    registrations: tuple[str, ...]  # ValidatingWebhookConfigurations; missing ones are skipped
    folder: pathlib.Path  # for `tls.crt` and `tls.key`
    lifetimes: certificate_rotation.Lifetimes = dataclasses.field(default_factory=certificate_rotation.Lifetimes)

    @property
    def look_seconds(self) -> float:
        """Seconds between two passes: several in the last third of a certificate's life."""
        shortest = min(self.lifetimes.leaf, self.lifetimes.spread).total_seconds()
        return min(_LOOK_SECONDS, shortest / 20)

    @property
    def certificate(self) -> pathlib.Path:
        """What is served."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> pathlib.Path:
        """Its key."""
        return self.folder / "tls.key"


class CertificateManager:
    """Renews certificates, and updates the registrations and the files of this replica."""

    def __init__(self, client: Client, settings: CertificateSettings) -> None:
        self._client = client
        self._settings = settings
        self._written: Pair | None = None

    async def begin(self) -> None:
        """Return when there is a certificate to serve with; retry while the API server is unreachable."""
        delays = _RETRY.delays(self._client.randomness)
        while True:
            try:
                await self.look()
            except (api_errors.ApiError, errors.ClientError) as error:
                _log.warning("cannot renew the webhook certificate", error=str(error))
                if self._written is not None:
                    return
                await self._client.clock.sleep(next(delays))
            else:
                return

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._client.clock.sleep(self._settings.look_seconds)
            try:
                await self.look()
            except (api_errors.ApiError, errors.ClientError) as error:
                _log.warning("cannot renew the webhook certificate", error=str(error))

    async def look(self) -> None:
        """Renew what is due, and update registrations and files."""
        stored = await self._stored()
        # First the trust, then the certificate that needs it.
        for name in self._settings.registrations:
            await self._register(name, stored.bundle)
        if stored.leaf != self._written:
            self._settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write_atomically(self._settings.key, stored.leaf.key, durable=False)
            files.write_atomically(self._settings.certificate, stored.leaf.certificate, durable=False)
            self._written = stored.leaf

    async def _stored(self) -> certificate_rotation.Stored:
        secrets = self._client.of(_SECRETS)
        settings = self._settings
        delays = _RETRY.delays(self._client.randomness)
        while True:
            try:
                found: Json | None = await secrets.get(settings.secret, namespace=settings.namespace)
            except api_errors.NotFound:
                found = None
            stored = None if found is None else _read(found.get("data") or {})
            now = self._client.clock.now().replace(microsecond=0)
            change = certificate_rotation.decide(stored, settings.names, now, settings.lifetimes)
            if stored is not None and change is certificate_rotation.Change.NOTHING:
                return stored
            new = certificate_rotation.changed(stored, change, settings.names, now, settings.lifetimes)
            try:
                if found is None:
                    await secrets.create(self._secret(new), namespace=settings.namespace)
                else:
                    version = {"resourceVersion": found["metadata"]["resourceVersion"]}
                    await secrets.update(self._secret(new, version), namespace=settings.namespace)
            except (api_errors.AlreadyExists, api_errors.Conflict):
                # Another replica wrote first; what it stored is used, once it can be read.
                await self._client.clock.sleep(next(delays))
                continue
            _log.info("certificate created", change=change.name.lower(), names=list(settings.names))
            return new

    def _secret(self, stored: certificate_rotation.Stored, version: Json | None = None) -> Json:
        metadata = {"name": self._settings.secret, "namespace": self._settings.namespace, **(version or {})}
        data = {name: base64.b64encode(value).decode("ascii") for name, value in _written(stored).items()}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}

    async def _register(self, name: str, bundle: bytes) -> None:
        api = self._client.of(_REGISTRATIONS)
        wanted = base64.b64encode(bundle).decode("ascii")
        try:
            found: Json = await api.get(name)
            stale = [one for one in found.get("webhooks") or () if one["clientConfig"].get("caBundle") != wanted]
            if not stale:
                return
            hooks = [{"name": one["name"], "clientConfig": {"caBundle": wanted}} for one in stale]
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            await api.patch(name, StrategicMergePatch({"metadata": version, "webhooks": hooks}))
        except (api_errors.NotFound, api_errors.Conflict):
            return  # it does not exist, or another replica writes the same; the next pass decides


def _written(stored: certificate_rotation.Stored) -> dict[str, bytes]:
    data = {
        "ca.crt": stored.authority.certificate,
        "ca.key": stored.authority.key,
        "tls.crt": stored.leaf.certificate,
        "tls.key": stored.leaf.key,
    }
    if stored.following is not None:
        data |= {"next-ca.crt": stored.following.certificate, "next-ca.key": stored.following.key}
    return {**data, "previous-ca.crt": stored.before} if stored.before else data


def _read(data: Json) -> certificate_rotation.Stored | None:
    try:
        raw = {name: base64.b64decode(value, validate=True) for name, value in data.items()}
        following = Pair(raw["next-ca.crt"], raw["next-ca.key"]) if "next-ca.crt" in raw else None
        return certificate_rotation.Stored(
            authority=Pair(raw["ca.crt"], raw["ca.key"]),
            leaf=Pair(raw["tls.crt"], raw["tls.key"]),
            following=following,
            before=raw.get("previous-ca.crt", b""),
        )
    except (KeyError, binascii.Error):
        return None
