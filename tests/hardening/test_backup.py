"""A copy of a running server, put into another folder, is that server again: its objects, and whom it trusts."""

from __future__ import annotations

import stat
from pathlib import Path

from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead_lab.testing import EmbeddedControlPlane
from kube_fairlead_lab.testing.control_plane import Access
from kube_fairlead_lab.testing.rawhttp import RawApi

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def test_a_restored_server_is_the_same_to_its_clients(
    fairlead_apiserver: EmbeddedControlPlane, tmp_path: Path
) -> None:
    copy, data = tmp_path / "copy.db", tmp_path / "data"
    async with RawApi(fairlead_apiserver.access()) as api:
        made = (await api.post(CONFIG_MAPS, {"metadata": {"name": "kept"}})).expect(201)
        await api.poll(f"{ACCOUNTS}/default", lambda answer: answer.code == 200)
        token = (await api.post(f"{ACCOUNTS}/default/token", {"spec": {}})).expect(201)["status"]["token"]
        assert _fairlead(fairlead_apiserver.folder / "data", "backup", copy) == 0
        later = (await api.post(CONFIG_MAPS, {"metadata": {"name": "later"}})).expect(201)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    authority = fairlead_apiserver.ca_file.read_bytes()

    other = EmbeddedControlPlane(tmp_path)
    assert _fairlead(data, "restore", copy) == 0
    assert _fairlead(data, "restore", copy) == 1, "a restore never overwrites"
    try:
        await other.start()
        assert other.ca_file.read_bytes() == authority
        async with RawApi(other.access()) as api:
            assert (await api.get(f"{CONFIG_MAPS}/kept")).expect(200) == made
            (await api.get(f"{CONFIG_MAPS}/later")).expect(404)
            # Whatever revision of before the restore a client has seen, it must list anew: what followed is not here.
            for seen in (made, later):
                since = seen["metadata"]["resourceVersion"]
                async with api.watch(CONFIG_MAPS, resourceVersion=since) as stream:
                    event = await stream.next()
                assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
            listed = (await api.get(CONFIG_MAPS)).expect(200)["metadata"]["resourceVersion"]
            assert int(listed) > int(later["metadata"]["resourceVersion"]) + 900_000
            async with api.watch(CONFIG_MAPS, resourceVersion=listed) as stream:
                (await api.post(CONFIG_MAPS, {"metadata": {"name": "new"}})).expect(201)
                event = await stream.next()
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "new")
        account = Access(url=other.url, ca_file=other.ca_file, user="", token=token)
        async with RawApi(account) as api:
            review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            answer = (await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)).expect(201)
            assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    finally:
        await other.stop()


def _fairlead(folder: Path, verb: str, file: Path) -> int:
    return main(["apiserver", f"--data-dir={folder}", verb, str(file)], environment=Environment({}))
