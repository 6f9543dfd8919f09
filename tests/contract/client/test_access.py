"""The way in: tokens that rotate, verbs that are forbidden, servers that are not trusted or not there."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from kube_fairlead import client
from kube_fairlead.api import errors as api_errors
from kube_fairlead.api.gvk import GroupVersionResource
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.client import client_factory, errors, retry, subresources
from kube_fairlead.client.client import Client
from kube_fairlead.client.credentials import Credential, FileCredentials, StaticCredentials, bearer
from kube_fairlead.client.server_access import Access
from kube_fairlead_lab.testing import ControlPlane
from kube_fairlead_lab.testing.credentials import CertificateAuthority
from tests.contract.client.conftest import CONFIG_MAPS, connect

SECRETS = GroupVersionResource("", "v1", "secrets")
REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "selfsubjectreviews")


def access_of(control_plane: ControlPlane) -> Access:
    return client_factory.find_access(kubeconfig_path=control_plane.kubeconfig, environment=Environment({}))


async def who_am_i(asking: Client) -> str:
    review = await asking.of(REVIEWS).create({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    name: str = review["status"]["userInfo"]["username"]
    return name


async def token_bound_to(admin: Client, namespace: str, secret: str) -> str:
    made = await admin.of(SECRETS).create({"metadata": {"name": secret}}, namespace=namespace)
    bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": made["metadata"]["uid"]}
    status = await subresources.request_token(
        admin, "default", namespace=namespace, expiration_seconds=600, bound_to=bound
    )
    token: str = status["token"]
    return token


async def test_a_token_that_rotates(
    admin: Client, control_plane: ControlPlane, namespace: str, tmp_path: pathlib.Path
) -> None:
    """The old token stops working; the client finds the new one in the file without a failed request."""
    file = tmp_path / "token"
    file.write_text(await token_bound_to(admin, namespace, "first"))
    access = dataclasses.replace(access_of(control_plane), credentials=FileCredentials(RealClock(), token_file=file))
    async with client.connect_to(access, environment=Environment({})) as account:
        assert await who_am_i(account) == f"system:serviceaccount:{namespace}:default"
        old = file.read_text()
        file.write_text(await token_bound_to(admin, namespace, "second"))
        await admin.of(SECRETS).delete("first", namespace=namespace)
        # Servers cache a token's verdict for seconds; until then the old one still works.
        stale = dataclasses.replace(access, credentials=StaticCredentials(Credential(bearer(old))))
        async with client.connect_to(stale, environment=Environment({})) as outdated:
            while True:
                try:
                    await who_am_i(outdated)
                except api_errors.Unauthorized:
                    break
        assert await who_am_i(account) == f"system:serviceaccount:{namespace}:default"


async def test_a_forbidden_verb_is_one_sentence(control_plane: ControlPlane, namespace: str) -> None:
    async with connect(control_plane.kubeconfig_for("jane", ["developers"])) as jane:
        with pytest.raises(api_errors.Forbidden) as caught:
            await jane.of(CONFIG_MAPS).delete("a", namespace=namespace)
        assert str(caught.value) == (
            f'configmaps "a" is forbidden: User "jane" cannot delete resource "configmaps" in API group "" '
            f'in the namespace "{namespace}"'
        )
        assert await who_am_i(jane) == "jane"


async def test_nobody_at_all(control_plane: ControlPlane) -> None:
    bad = dataclasses.replace(
        access_of(control_plane),
        credentials=StaticCredentials(Credential("Bearer nonsense")),
    )
    async with client.connect_to(bad, environment=Environment({})) as stranger:
        with pytest.raises(api_errors.Unauthorized):
            await stranger.of(CONFIG_MAPS).list()


async def test_a_server_that_is_not_trusted(control_plane: ControlPlane, tmp_path: pathlib.Path) -> None:
    other = CertificateAuthority.create(tmp_path / "other")
    access = dataclasses.replace(
        access_of(control_plane),
        certificate_authority=other.certificate_file.read_bytes(),
        certificate_authority_file=None,
    )
    async with client.connect_to(access, environment=Environment({})) as misled:
        with pytest.raises(errors.CertificateRejected) as caught:
            await misled.of(CONFIG_MAPS).list()
    assert str(caught.value).startswith(f"the certificate of {control_plane.url} is not trusted: ")


async def test_a_server_under_another_name(control_plane: ControlPlane) -> None:
    access = dataclasses.replace(access_of(control_plane), tls_server_name="elsewhere.example.com")
    async with client.connect_to(access, environment=Environment({})) as misled:
        with pytest.raises(errors.CertificateRejected, match="elsewhere"):
            await misled.of(CONFIG_MAPS).list()


async def test_a_server_that_is_down(isolated_control_plane: ControlPlane) -> None:
    async with client.connect(
        kubeconfig_path=isolated_control_plane.kubeconfig, environment=Environment({}), retry_policy=retry.NEVER
    ) as connected:
        await connected.request("GET", "/readyz")
        await isolated_control_plane.stop_server()
        with pytest.raises(errors.TransportError) as caught:
            await connected.of(CONFIG_MAPS).list()
        assert isolated_control_plane.url in str(caught.value)
        await isolated_control_plane.start_server()
        await connected.request("GET", "/readyz")
