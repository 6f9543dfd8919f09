"""Whatever somebody types, the answer is one sentence that names the flag, and the right exit code."""

from __future__ import annotations

import pathlib
import socket

import pytest

from kube_fairlead.base import process
from kube_fairlead.base.environment import Environment
from kube_fairlead.cli.main import main
from kube_fairlead_lab.testing.credentials import CertificateAuthority

BAD_USAGE: list[tuple[str, str]] = [
    ("agent --platform=UPPER", "'--platform': 'UPPER' is not a platform"),
    ("agent --platform=no:scheme", "'--platform'"),
    ("agent --registry-dir=", "'--registry-dir': must not be empty"),
    ("agent --state-dir=", "'--state-dir': must not be empty"),
    ("agent --log-file=", "'--log-file': must not be empty"),
    ("agent --bind-address=1.2.3.4.5_", "'--bind-address': '1.2.3.4.5_' is neither an IP address nor a host name"),
    ("agent --lifecycle-api-group=nope", "'--lifecycle-api-group': 'nope' is not one of"),
    (
        "agent --config={bad_yaml}",
        "is not valid YAML: line 2, column 4: mapping values are not allowed in this context",
    ),
    ("agent --config={binary}", "--config: {binary}: is not valid YAML: it is no text in UTF-8"),
    ("agent --registry-dir=/dev/null/r", "--registry-dir: /dev/null/r cannot be created: Not a directory"),
    ("agent --registry-dir={folder} --state-dir=/dev/null/s", "--state-dir: /dev/null/s cannot be created"),
    ("agent --registry-dir={folder} --log-file=/dev/null/l/x", "--log-file: /dev/null/l/x cannot be written"),
    ("hollow --name-prefix=Bad_", "'--name-prefix': Bad_0 is not a valid node name"),
    ("hollow --clouds=", "'--clouds': must be a list such as aws,hcloud, or none"),
    ("hollow --clouds=aws,A_B", "'--clouds': 'A_B' is not a platform"),
    ("drain -l ===", "'--selector': '===' is not a label selector"),
    ("uncordon -l a~b", "'--selector'"),
    ("maintain -l a~b -- true", "'--selector'"),
    ("drain {empty_word}", "resource name may not be empty"),
    ("drain node/Bad/Name", "may not have more than one slash"),
    ("drain x --transition=", "'--transition': '' is not a valid name"),
    ("status {empty_word}", "'' is not a valid name"),
    ("status --cloud-provider-platforms=A", "--cloud-provider-platforms: 'A' is not a platform"),
    ("driver drain --instance=a/b", "'--instance': 'a/b' is not allowed in a file name"),
    ("driver drain --registry-dir=/{long}", "--registry-dir /fff"),
    ("driver drain --plugin-dir=/{long}", "--plugin-dir /fff"),
    ("driver drain --registry-dir=/dev/null/r", "--registry-dir: /dev/null/r cannot be created"),
    ("driver drain --registry-dir={folder} --plugin-dir=/dev/null/p", "--plugin-dir: /dev/null/p cannot be created"),
    ("driver drain --node-name=Bad_Name", "'--node-name'"),
    ("controller-manager --controllers=", "'--controllers': must name at least one controller"),
    ("controller-manager --controllers=nope", '--controllers: "nope" is not in the list of known controllers'),
    ("controller-manager --leader-elect-groups=nope", "--leader-elect-groups: 'nope' is no group of controllers"),
    (
        "controller-manager --leader-elect-group-kubeconfig=a=/nope",
        "--leader-elect-group-kubeconfig: file /nope does not exist",
    ),
    ("controller-manager --leader-elect-resource-name=", "'--leader-elect-resource-name'"),
    ("controller-manager --leader-elect-resource-namespace=A_", "'--leader-elect-resource-namespace'"),
    (
        "controller-manager --leader-elect-lease-duration=5s",
        "--leader-elect-lease-duration, in whole seconds, must be greater than --leader-elect-renew-deadline",
    ),
    (
        "controller-manager --leader-elect-retry-period=20s",
        "--leader-elect-renew-deadline must be greater than --leader-elect-retry-period * 1.2",
    ),
    ("controller-manager --tls-cert-file={certificate}", "set both or neither"),
    (
        "controller-manager --tls-cert-file={text} --tls-private-key-file={key}",
        "--tls-cert-file: {text} has no certificate in PEM form",
    ),
    (
        "controller-manager --tls-cert-file={certificate} --tls-private-key-file={text}",
        "--tls-private-key-file: {text} has no private key in PEM form",
    ),
    (
        "webhook --tls-cert-file={certificate} --tls-private-key-file={other_key}",
        "--tls-private-key-file: {other_key} is not the key of the certificate in {certificate}",
    ),
    ("webhook --client-ca-file={text}", "'--client-ca-file': {text} has no certificate in PEM form"),
    ("webhook manifests --resource=a.b.c --ca-file={text}", "'--ca-file': {text} has no certificate"),
    ("webhook manifests --resource=a.b.c --ca-file={key}", "'--ca-file': {key} has no certificate"),
    ("webhook manifests --resource=a.b.c --url=http://x", "'--url': 'http://x' is not an HTTPS URL such as https://"),
    ("webhook manifests --resource=a.b.c --namespace=", "'--namespace': '' is not a valid namespace"),
    ("webhook manifests --resource=Foo.Bar.com", "--resource: 'Foo.Bar.com' is not PLURAL.GROUP"),
    ("webhook manifests --evictions-of=a/B_", "--evictions-of: 'a/B_' is not NAMESPACE/ACCOUNT"),
    ("cloud-controller-manager --cloud-provider=nope", "--cloud-provider: 'nope' is not known; installed are"),
    ("cloud-controller-manager --cloud-provider=static --cluster-cidr=10.0.0.0/99", "'--cluster-cidr': '10.0.0.0/99'"),
    (
        "cloud-controller-manager --cloud-provider=static --cloud-config={bad_yaml}",
        "--cloud-config: inventory {bad_yaml} cannot be read: line 2, column 4: mapping values are not allowed",
    ),
    ("cloud-controller-manager --cloud-provider=aws --cloud-config={bad_yaml}", "no section headers. file: 'bad_yaml'"),
    ("cloud-controller-manager --cloud-provider=aws --cloud-provider-platforms=A", "'--cloud-provider-platforms': 'A'"),
    ("cloud-controller-manager --cloud-provider=static --cluster-name=", "'--cluster-name': must not be empty"),
    ("install --image=a\tb", "'--image'"),
    ("install --shutdown-grace-period=soon", "--shutdown-grace-period and related flags: "),
    ("install --ccm==", "--ccm==: '' is not a platform"),
    ("install --cluster-cidr=nope", "'--cluster-cidr': 'nope'"),
    (
        "sim --scenario={bad_yaml}",
        "--scenario {bad_yaml}: line 2, column 4: mapping values are not allowed in this context",
    ),
    ("apiserver --data-dir=", "'--data-dir': must not be empty"),
    ("apiserver --tls-san=bad_name", "'--tls-san': 'bad_name' is neither an IP address nor a host name"),
    ("apiserver --client-ca-file={text}", "'--client-ca-file': {text} has no certificate in PEM form"),
    (
        "apiserver --data-dir={data} --secure-port=0 --token-auth-file={binary}",
        "--token-auth-file: {binary} is no text",
    ),
    ("apiserver --data-dir={data} --secure-port=0 --audit-log-path={folder}", "--audit-log-path: {folder} cannot be"),
    ("apiserver --data-dir=/dev/null/x --secure-port=0", "--data-dir: /dev/null/x cannot be created: Not a directory"),
]
FAILURES: list[tuple[str, str]] = [
    ("status --kubeconfig={bad_yaml}", "kubeconfig {bad_yaml}: is not valid YAML in line 2, column 4"),
    (
        "apiserver --data-dir={backed_up} backup /dev/null/x",
        "/dev/null/x cannot be written: there is no folder /dev/null",
    ),
    ("apiserver --data-dir={data} restore {text}", "{text} is no backup, or a damaged one; nothing was restored."),
    ("apiserver --data-dir={data} restore {empty}", "{empty} is no backup, or a damaged one; nothing was restored."),
    (
        "controller-manager --bind-address=no-such-host.invalid",
        "cannot listen on no-such-host.invalid:10257: --bind-address 'no-such-host.invalid' is no address",
    ),
    ("agent --registry-dir={folder} --secure-port={taken}", "127.0.0.1:{taken}: another process does; give another"),
    ("apiserver --data-dir={data} --secure-port={taken}", "127.0.0.1:{taken}: another process does; give another"),
    (
        "webhook --bind-address=203.0.113.9 --tls-cert-file={certificate} --tls-private-key-file={key}",
        "cannot listen on 203.0.113.9:9443: --bind-address 203.0.113.9 is not an address of this machine",
    ),
]


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory, unreachable_kubeconfig: pathlib.Path) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("h")
    authority = CertificateAuthority.create(folder / "pki")
    certificate, key = authority.serving("one")
    _, other_key = authority.serving("two")
    contents = {"bad_yaml": b"a: b\n  c: d\n", "binary": b"\xff\xfe\x00", "text": b"hello\n", "empty": b""}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "backed_up").mkdir()
    (folder / "backed_up" / "fairlead.db").touch()
    paths = {name: str(folder / name) for name in (*contents, "folder", "data", "backed_up")}
    paths["kubeconfig"] = str(unreachable_kubeconfig)
    keys = {"certificate": str(certificate), "key": str(key), "other_key": str(other_key)}
    return {**paths, **keys, "long": "f" * 85, "empty_word": ""}


def said(line: str, things: dict[str, str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    arguments = [word.format(**things) for word in line.split(" ")]
    environment = Environment({"KUBECONFIG": things["kubeconfig"]})
    code = main(arguments, environment=environment)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(("line", "words"), BAD_USAGE)
def test_bad_usage(line: str, words: str, things: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    code, text = said(line, things, capsys)
    last = text.strip().splitlines()[-1]
    assert words.format(**things) in last
    assert last.startswith("Error: ")
    assert code == 2


@pytest.mark.parametrize(("line", "words"), FAILURES)
def test_failures(line: str, words: str, things: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        things = {**things, "taken": str(taken.getsockname()[1])}
        code, text = said(line, things, capsys)
    assert words.format(**things) in text
    assert "Traceback" not in text
    assert code == 1


@pytest.mark.parametrize("command", ["drain", "uncordon"])
def test_whoever_interrupts_before_anything_was_asked_for_is_told_so(
    command: str, things: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "run", lambda _component: None)  # as when it is cancelled while it connects
    code, text = said(f"{command} node-1", things, capsys)
    assert (code, text) == (130, "interrupted; nothing was requested\n")


def test_a_switch_in_the_environment_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"], environment=Environment({"FAIRLEAD_DEBUG": "maybe"})) == 2
    assert "Error: FAIRLEAD_DEBUG='maybe' must be one of 1, true" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{nope}", "KUBECONFIG names {nope}, which does not exist, and this is no pod; name a file with --kubeconfig"),
        ("{empty}", "no context found in {empty}, and this is no pod"),
        ("{nope}:{empty}", "KUBECONFIG names {nope}, which does not exist; no context found in {empty}"),
    ],
)
def test_a_kubeconfig_that_is_not_there_is_named(
    value: str, words: str, things: dict[str, str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    things = {**things, "nope": str(tmp_path / "nope")}
    assert main(["status"], environment=Environment({"KUBECONFIG": value.format(**things)})) == 1
    assert words.format(**things) in capsys.readouterr().err
