"""`fairlead webhook`: serves admission webhooks, and prints the manifests that register them."""

from __future__ import annotations

import datetime as dt
import pathlib
import tempfile
from typing import TYPE_CHECKING, Any

import click

from kube_fairlead.api import names
from kube_fairlead.api.gvk import GroupResource
from kube_fairlead.base import process
from kube_fairlead.base.gates import FeatureGates
from kube_fairlead.cli import flag_values, manager_flags, shared_flags
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.webhook.certificate_manager import CertificateSettings
    from kube_fairlead.webhook.server import Settings

__all__ = ["command", "manifests"]


def _address(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    return flag_values.bind_address(ctx, parameter, value) if value else value


@click.group("webhook", invoke_without_command=True)
@shared_flags.cluster
@click.option("--bind-address", default="", callback=_address, help="IP address to listen on.  [default: all]")
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=9443,
    show_default=True,
    help="HTTPS port to listen on; 0 selects a free port.",
)
@click.option(
    "--tls-cert-file",
    type=flag_values.FILE,
    help="Serving certificate; read again when it changes. Required unless --tls-secret is set.",
)
@click.option("--tls-private-key-file", type=flag_values.FILE, help="Private key of --tls-cert-file.")
@click.option(
    "--tls-secret",
    metavar="NAMESPACE/NAME",
    default="",
    help="Create and renew the certificates instead: the replicas share them in this Secret, and the CA bundle is "
    "written to each --webhook-configuration.",
)
@click.option(
    "--tls-name",
    "tls_names",
    multiple=True,
    help="With --tls-secret: DNS name or IP address in the certificate, by which API servers call the webhook. May be "
    "repeated.  [default: that of the Service fairlead-webhook in the Secret's namespace]",
)
@click.option(
    "--webhook-configuration",
    "registrations",
    multiple=True,
    help="With --tls-secret: ValidatingWebhookConfiguration that gets the CA bundle. May be repeated.  [default: "
    "fairlead-webhook, fairlead-webhook-evictions]",
)
@click.option(
    "--cert-dir",
    type=flag_values.FOLDER,
    help="With --tls-secret: folder for the certificate files of this replica.  [default: a temporary folder]",
)
@shared_flags.period(
    "--certificate-lifetime", "720h", "With --tls-secret: lifetime of the certificate; it is renewed after two thirds."
)
@shared_flags.period(
    "--authority-lifetime", "8760h", "With --tls-secret: lifetime of the CA; it is renewed after two thirds."
)
@click.option(
    "--client-ca-file",
    type=flag_values.FILE,
    callback=flag_values.pem_certificates,
    help="Accept admission reviews only from clients with a certificate of this CA. Probes and metrics need none.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="COMMON_NAME",
    help="With --client-ca-file: common name of an accepted client certificate, such as kube-apiserver. May be "
    "repeated.  [default: any]",
)
@manager_flags.allowed_paths
@shared_flags.feature_gates
@shared_flags.logging
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    kubeconfig: pathlib.Path | None,
    kube_context: str,
    bind_address: str,
    secure_port: int,
    tls_cert_file: pathlib.Path | None,
    tls_private_key_file: pathlib.Path | None,
    client_ca_file: pathlib.Path | None,
    client_names: tuple[str, ...],
    feature_gates: FeatureGates,
    **flags: Any,
) -> None:
    """Serve the admission webhooks that Fairlead needs on a Kubernetes API server.

    Kubernetes ignores `kubectl delete --grace-period` for custom resources. The webhook for deletions writes the
    deadline to annotations of the object, for controllers that use kube_fairlead.grace. A later delete can only shorten
    the deadline, and no delete is rejected. The webhook for evictions rejects evictions by a drain driver of pods on
    other nodes. `fairlead webhook manifests` prints what registers them.
    """
    del feature_gates  # every component has the flag; no gate changes this one
    if context.invoked_subcommand is not None:
        return
    certificates = _certificates(flags)
    certificate, key = _key_pair(certificates, tls_cert_file, tls_private_key_file)
    if client_names and client_ca_file is None:
        raise click.UsageError("--client-name needs --client-ca-file: without it, clients send no certificate")
    from kube_fairlead import client
    from kube_fairlead.webhook import server

    invocation: Invocation = context.find_root().obj

    def connect() -> client.Client:
        return client.connect(
            kubeconfig_path=kubeconfig,
            context=kube_context,
            component="fairlead-webhook",
            environment=invocation.environment,
        )

    settings = server.Settings(
        certificate=certificate,
        key=key,
        bind_address=bind_address,
        port=secure_port,
        client_ca=client_ca_file,
        client_names=frozenset(client_names),
        authorizer=manager_flags.make_authorizer(flags, connect),
        **({} if certificates is None else {"look_seconds": certificates.look_seconds}),
    )

    process.run(lambda: _serve(connect(), settings, certificates))


def _key_pair(
    certificates: CertificateSettings | None, cert_file: pathlib.Path | None, key_file: pathlib.Path | None
) -> tuple[pathlib.Path, pathlib.Path]:
    """The files of the certificate and its key: those that the webhook creates, or those of the flags."""
    if certificates is not None:
        if cert_file or key_file:
            raise click.UsageError("--tls-secret creates a certificate and --tls-cert-file is one; set one of them")
        return certificates.certificate, certificates.key
    if cert_file is None or key_file is None:
        raise click.UsageError(
            "set --tls-secret, or --tls-cert-file and --tls-private-key-file: API servers call webhooks by HTTPS only"
        )
    flag_values.check_key_pair(cert_file, key_file)
    return cert_file, key_file


async def _serve(client: Client, settings: Settings, certificates: CertificateSettings | None) -> None:
    from kube_fairlead.base.metrics import PrometheusMetrics
    from kube_fairlead.base.tasks import OnExit, TaskScope
    from kube_fairlead.webhook import server
    from kube_fairlead.webhook.certificate_manager import CertificateManager

    async with client:
        metrics = PrometheusMetrics(process_metrics=True)
        if certificates is None:
            await server.serve(client, metrics, settings, _announce)
            return
        certificate_manager = CertificateManager(client, certificates)
        await certificate_manager.begin()
        async with TaskScope("webhook", on_exit=OnExit.CANCEL) as scope:
            scope.start(certificate_manager.run(), name="certificates")
            await scope.start(server.serve(client, metrics, settings, _announce), name="serve")


def _certificates(flags: dict[str, Any]) -> CertificateSettings | None:
    """The settings of certificates that the webhook creates; None if the flags name a certificate."""
    if not flags["tls_secret"]:
        for name in ("tls_names", "registrations", "cert_dir"):
            if flags[name]:
                flag = {"tls_names": "--tls-name", "registrations": "--webhook-configuration"}.get(name, "--cert-dir")
                raise click.UsageError(f"{flag} needs --tls-secret")
        return None
    from kube_fairlead.webhook import manifests as webhook_manifests
    from kube_fairlead.webhook.certificate_manager import CertificateSettings
    from kube_fairlead.webhook.certificate_rotation import Lifetimes

    namespace, separator, secret = flags["tls_secret"].partition("/")
    if not separator or names.dns1123_label(namespace) or names.dns1123_subdomain(secret):
        raise click.BadParameter(
            f"{flags['tls_secret']!r} is not NAMESPACE/NAME, e.g. "
            f"fairlead-system/{webhook_manifests.own_secret_name()}",
            param_hint="--tls-secret",
        )
    folder = flags["cert_dir"] or pathlib.Path(tempfile.mkdtemp(prefix="fairlead-webhook-"))
    flag_values.make_folder("--cert-dir", folder)
    leaf, authority = (dt.timedelta(seconds=flags[f"{name}_lifetime"]) for name in ("certificate", "authority"))
    if leaf > authority / 2:
        raise click.UsageError("--certificate-lifetime: must be at most half of --authority-lifetime")
    return CertificateSettings(
        namespace=namespace,
        secret=secret,
        names=flags["tls_names"] or (webhook_manifests.service_name(namespace),),
        registrations=flags["registrations"] or webhook_manifests.REGISTRATIONS,
        folder=folder,
        lifetimes=Lifetimes(leaf=leaf, authority=authority, spread=min(Lifetimes().spread, authority / 12)),
    )


def _announce(port: int) -> None:
    click.echo(f"fairlead webhook listens on port {port}")


def _url(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    from urllib.parse import urlsplit

    if value and not (urlsplit(value).scheme == "https" and urlsplit(value).hostname):
        raise click.BadParameter(f"{value!r} is not an HTTPS URL such as https://10.0.0.1:9443", ctx, parameter)
    return value


@command.command("manifests")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="Custom resource whose deletion grace periods are recorded, such as virtualmachines.example.com. May be "
    "repeated.",
)
@click.option(
    "--evictions-of",
    "accounts",
    multiple=True,
    metavar="NAMESPACE/ACCOUNT",
    help="Service account of drain drivers. Its evictions of pods on other nodes are rejected. May be repeated.",
)
@click.option(
    "--namespace",
    default="fairlead-system",
    show_default=True,
    callback=flag_values.label,
    help="Namespace of the webhook.",
)
@click.option(
    "--url",
    default="",
    callback=_url,
    help="URL by which API servers call the webhook, such as https://10.0.0.1:9443.  [default: its Service]",
)
@click.option(
    "--ca-file",
    type=flag_values.FILE,
    callback=flag_values.pem_certificates,
    help="CA certificate that signed the webhook's certificate.",
)
@click.option(
    "--image",
    default="",
    callback=flag_values.image,
    help="Also print a Deployment with this container image. Its certificate is read from the Secret "
    "fairlead-deletion-webhook-tls (with --evictions-of: fairlead-webhook-tls).",
)
@click.option(
    "--own-certificates",
    is_flag=True,
    help="With --image: the webhook creates and renews its certificates; --ca-file is not allowed.",
)
def manifests(
    *,
    resources: tuple[str, ...],
    accounts: tuple[str, ...],
    namespace: str,
    url: str,
    ca_file: pathlib.Path | None,
    image: str,
    own_certificates: bool,
) -> None:
    """Print the webhook's ServiceAccount, RBAC, Service and webhook configurations, for `kubectl apply -f -`."""
    if url and image:
        raise click.UsageError("--image runs the webhook in the cluster and --url is for one outside; set one of them")
    if own_certificates and (ca_file is not None or not image):
        raise click.UsageError("--own-certificates needs --image and excludes --ca-file")
    if not resources and not accounts:
        raise click.UsageError("set --resource, --evictions-of, or both")
    from kube_fairlead.api.yamltext import emitter
    from kube_fairlead.webhook import manifests as webhook_manifests

    named = [_resource(text) for text in resources]
    authority = b"" if ca_file is None else ca_file.read_bytes()
    drivers = [_account(text) for text in accounts]
    base = url.removesuffix("/").removesuffix("/delete")
    # With evictions it is the webhook of `fairlead install`; without, it is a second one beside it.
    name = webhook_manifests.NAME if drivers else webhook_manifests.DELETION_NAME
    registrations = [
        *([webhook_manifests.DELETION_REGISTRATION] if named else []),
        *([webhook_manifests.EVICTION_REGISTRATION] if drivers else []),
    ]
    at = {"namespace": namespace, "url": base and f"{base}/delete"}
    documents = [
        *webhook_manifests.access_manifests(named, namespace=namespace, name=name),
        *([] if url else [webhook_manifests.service(namespace, name=name)]),
        *(
            webhook_manifests.certificate_access(namespace, registrations=registrations, name=name)
            if own_certificates
            else []
        ),
        *(
            webhook_manifests.workload_manifests(
                image,
                namespace=namespace,
                own_certificates=own_certificates,
                registrations=registrations,
                name=name,
            )
            if image
            else []
        ),
        *([webhook_manifests.registration(named, **at, authority=authority, name=name)] if named else []),
        *(
            webhook_manifests.eviction_manifests(
                drivers, namespace=namespace, url=base and f"{base}/evict", authority=authority
            )
            if drivers
            else []
        ),
    ]
    click.echo(emitter.write_all(documents), nl=False)


def _resource(text: str) -> GroupResource:
    plural, _, group = text.partition(".")
    if names.dns1123_label(plural) or "." not in group or names.dns1123_subdomain(group):
        hint = "--resource"
        raise click.BadParameter(f"{text!r} is not PLURAL.GROUP, e.g. virtualmachines.example.com", param_hint=hint)
    return GroupResource(group, plural)


def _account(text: str) -> tuple[str, str]:
    namespace, separator, name = text.partition("/")
    if not separator or names.dns1123_label(namespace) or names.dns1123_subdomain(name):
        hint = "--evictions-of"
        raise click.BadParameter(
            f"{text!r} is not NAMESPACE/ACCOUNT, e.g. fairlead-system/fairlead-drain", param_hint=hint
        )
    return namespace, name
