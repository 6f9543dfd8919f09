from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kube_fairlead.api import errors
from kube_fairlead.base.clock import RealClock
from kube_fairlead.base.randomness import SystemRandomness
from kube_fairlead_apiserver.attributes import ANONYMOUS, UserInfo
from kube_fairlead_apiserver.http.messages import Query, Request
from kube_fairlead_apiserver.security.authentication import (
    Authentication,
    TokenFileError,
    bearer_token,
    read_token_file,
)
from kube_fairlead_apiserver.security.pki.authority import Authority
from kube_fairlead_apiserver.security.tokens import InvalidToken, VerifiedToken


async def no_body() -> bytes:
    return b""


def request(token: str | None = None, certificate: bytes | None = None, user: UserInfo | None = None) -> Request:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    return Request("GET", "/", Query({}), headers, no_body, peer_certificate=certificate, trusted_user=user)


class Expiring:
    def verify(self, token: str, audiences: Sequence[str] | None = None) -> VerifiedToken | None:
        if token == "expired":
            raise InvalidToken("service account token has expired")
        return None


@pytest.fixture
def chain() -> Authentication:
    return Authentication(static_tokens={"secret": UserInfo("alice", uid="1", groups=("devs",))}, more=[Expiring()])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    authority = Authority.open(tmp_path_factory.mktemp("pki"), RealClock(), SystemRandomness())
    return {
        name: ssl.PEM_cert_to_DER_cert(authority.client(name, groups).certificate.decode())
        for name, groups in {"bob": ["ops"], "root": ["system:masters", "system:authenticated"]}.items()
    } | {"": authority_without_a_name()}


def authority_without_a_name() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "ops")])
    now = RealClock().now()
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_nobody(chain: Authentication) -> None:
    assert chain.authenticate(request()) == ANONYMOUS
    with pytest.raises(errors.Unauthorized, match=r"^Unauthorized$"):
        Authentication(anonymous=False).authenticate(request())


def test_a_token_from_the_file(chain: Authentication) -> None:
    user = chain.authenticate(request("secret"))
    assert user == UserInfo("alice", uid="1", groups=("devs", "system:authenticated"))


@pytest.mark.parametrize("token", ["wrong", "secre", "secret2", "expired"])
def test_a_bad_token_is_an_error_and_not_anonymous(chain: Authentication, token: str) -> None:
    with pytest.raises(errors.Unauthorized):
        chain.authenticate(request(token))


def test_a_client_certificate(chain: Authentication, certificates: dict[str, bytes]) -> None:
    user = chain.authenticate(request(certificate=certificates["bob"]))
    assert (user.name, user.groups) == ("bob", ("ops", "system:authenticated"))
    assert user.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    root = chain.authenticate(request(certificate=certificates["root"]))
    assert root.groups == ("system:masters", "system:authenticated")


def test_a_certificate_wins_over_a_token_and_one_without_a_name_says_nothing(
    chain: Authentication, certificates: dict[str, bytes]
) -> None:
    assert chain.authenticate(request("wrong", certificates["bob"])).name == "bob"
    assert chain.authenticate(request("secret", certificates[""])).name == "alice"


def test_code_above_may_speak_as_anybody(chain: Authentication) -> None:
    inside = UserInfo("inside")
    assert chain.authenticate(request("wrong", user=inside)) is inside


def test_why_a_token_is_no_good(chain: Authentication) -> None:
    assert chain.authenticate_token("unknown") is None
    with pytest.raises(errors.Unauthorized, match="service account token has expired"):
        chain.authenticate_token("expired")


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  Bearer abc  ", "abc"),
        ("Bearer", None),
        ("Bearer  abc", None),
        ("Basic abc", None),
        ("", None),
    ],
)
def test_bearer_token(header: str, token: str | None) -> None:
    assert bearer_token({"authorization": header}) == token


@pytest.mark.parametrize(
    ("mode", "able"),
    [(0o644, "read by every user"), (0o604, "read by every user"), (0o620, "written by"), (0o666, "written by")],
)
def test_a_token_file_that_others_can_use(tmp_path: Path, mode: int, able: str) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("t1,alice,1\n")
    path.chmod(mode)
    with pytest.raises(TokenFileError, match=f"--token-auth-file: .*tokens.csv can be {able}.*chmod 600"):
        read_token_file(path)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_a_token_file_of_its_owner_or_group(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("t1,alice,1\n")
    path.chmod(mode)
    assert read_token_file(path) == {"t1": UserInfo("alice", uid="1")}


def test_why_a_token_is_no_good_is_for_the_log(chain: Authentication) -> None:
    with pytest.raises(errors.Unauthorized, match=r"^Unauthorized$"):
        chain.authenticate(request("expired"))


def test_token_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens.csv"
    path.touch(0o600)
    path.write_text('t1,alice,1,"devs,ops"\n\nt2, bob, 2\nt3,carol,3,one\n')
    assert read_token_file(path) == {
        "t1": UserInfo("alice", uid="1", groups=("devs", "ops")),
        "t2": UserInfo("bob", uid="2"),
        "t3": UserInfo("carol", uid="3", groups=("one",)),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n", r"tokens.csv:1: must have at least 3 columns \(token, user name, user uid\), found 2"),
        ("a,b,c\n,b,c\n", "tokens.csv:2: the token is empty"),
        ("a,b,c\na,d,e\n", "tokens.csv:2: the token occurs twice"),
    ],
)
def test_broken_token_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "tokens.csv"
    path.touch(0o600)
    path.write_text(content)
    with pytest.raises(TokenFileError, match=message):
        read_token_file(path)
