"""`fairlead webhook`: the shim for stock Kubernetes as a process, and the manifests that register it."""

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
from kube_fairlead.cli import manager_flags, options, values
from kube_fairlead.cli.invocation import Invocation

if TYPE_CHECKING:
    from kube_fairlead.client import Client
    from kube_fairlead.webhook.certificate_manager import CertificateSettings
    from kube_fairlead.webhook.server import Settings

__all__ = ["command", "manifests"]


def _address(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    return values.bind_address(ctx, parameter, value) if value else value


@click.group("webhook", invoke_without_command=True)
@click.option("--kubeconfig", type=values.FILE, help="The kubeconfig [default: the one that kubectl would use].")
@click.option("--context", "kube_context", default="", help="The context of the kubeconfig to use.")
@click.option("--bind-address", default="", callback=_address, help="The address to listen on [default: all].")
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=9443,
    show_default=True,
    help="The port to listen on; 0 takes a free one.",
)
@click.option(
    "--tls-cert-file",
    type=values.FILE,
    help="The certificate to show to API servers; read again when it changes. [this or --tls-secret to serve]",
)
@click.option("--tls-private-key-file", type=values.FILE, help="The private key of --tls-cert-file.")
@click.option(
    "--tls-secret",
    metavar="NAMESPACE/NAME",
    default="",
    help="Make and renew the certificates instead: replicas share them in this Secret, and the bundle that API servers "
    "trust is kept in --webhook-configuration.",
)
@click.option(
    "--tls-name",
    "tls_names",
    multiple=True,
    help="With --tls-secret: a DNS name or address by which API servers call it. May be repeated "
    "[default: the Service fairlead-webhook in the Secret's namespace].",
)
@click.option(
    "--webhook-configuration",
    "registrations",
    multiple=True,
    help="With --tls-secret: a ValidatingWebhookConfiguration to keep the bundle in. May be repeated "
    "[default: fairlead-webhook, fairlead-webhook-evictions].",
)
@click.option(
    "--cert-dir", type=values.FOLDER, help="With --tls-secret: where this replica's files are [default: a new folder]."
)
@manager_flags.period("--certificate-lifetime", "720h", "With --tls-secret: renewed when two thirds of it have passed.")
@manager_flags.period("--authority-lifetime", "8760h", "With --tls-secret: the same of the authority that signs it.")
@click.option(
    "--client-ca-file",
    type=values.FILE,
    callback=values.pem_certificates,
    help="Answer reviews only to callers with a certificate of this CA; probes and metrics stay open.",
)
@click.option(
    "--client-name",
    "client_names",
    multiple=True,
    metavar="COMMON_NAME",
    help="With --client-ca-file: the common name of a certificate that may call, such as kube-apiserver. May be "
    "repeated [default: any].",
)
@manager_flags.allowed_paths
@options.feature_gates
@options.logging
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
    **own: Any,
) -> None:
    """Record the deletion grace of custom resources on stock Kubernetes.

    A DELETE admission webhook for controllers that use kube_fairlead.grace. It notes on the object until when its
    clean-up may take, under the rule that a deadline only ever moves earlier, and never refuses a delete.
    """
    del feature_gates  # every component takes them; none of them is about this one
    if context.invoked_subcommand is not None:
        return
    keeping = _keeping(own)
    certificate, key = _key_pair(keeping, tls_cert_file, tls_private_key_file)
    if client_names and client_ca_file is None:
        raise click.UsageError("--client-name needs --client-ca-file: without it no certificate is asked for")
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
        authorizer=manager_flags.gatekeeper(own, connect),
        **({} if keeping is None else {"look_seconds": keeping.look_seconds}),
    )

    process.run(lambda: _serve(connect(), settings, keeping))


def _key_pair(
    keeping: CertificateSettings | None, cert_file: pathlib.Path | None, key_file: pathlib.Path | None
) -> tuple[pathlib.Path, pathlib.Path]:
    """The files of the certificate and its key: those that the webhook keeps itself, or those that were given."""
    if keeping is not None:
        if cert_file or key_file:
            raise click.UsageError("--tls-secret makes the certificate, --tls-cert-file names one; give one of them")
        return keeping.certificate, keeping.key
    if cert_file is None or key_file is None:
        raise click.UsageError(
            "--tls-secret, or --tls-cert-file and --tls-private-key-file, are needed: API servers only speak HTTPS"
        )
    values.check_key_pair(cert_file, key_file)
    return cert_file, key_file


async def _serve(client: Client, settings: Settings, keeping: CertificateSettings | None) -> None:
    from kube_fairlead.base.metrics import PrometheusMetrics
    from kube_fairlead.base.tasks import OnExit, TaskScope
    from kube_fairlead.webhook import server
    from kube_fairlead.webhook.certificate_manager import CertificateManager

    async with client:
        metrics = PrometheusMetrics(process_metrics=True)
        if keeping is None:
            await server.serve(client, metrics, settings, _announce)
            return
        keeper = CertificateManager(client, keeping)
        await keeper.begin()
        async with TaskScope("webhook", on_exit=OnExit.CANCEL) as scope:
            scope.start(keeper.run(), name="certificates")
            await scope.start(server.serve(client, metrics, settings, _announce), name="serve")


def _keeping(flags: dict[str, Any]) -> CertificateSettings | None:
    """How certificates are kept, where the webhook makes them itself."""
    if not flags["tls_secret"]:
        for name in ("tls_names", "registrations", "cert_dir"):
            if flags[name]:
                spelled = {"tls_names": "--tls-name", "registrations": "--webhook-configuration"}.get(
                    name, "--cert-dir"
                )
                raise click.UsageError(f"{spelled} needs --tls-secret: only then are certificates made")
        return None
    from kube_fairlead.webhook import manifests as made
    from kube_fairlead.webhook.certificate_manager import CertificateSettings
    from kube_fairlead.webhook.certificate_rotation import Lifetimes

    namespace, separator, secret = flags["tls_secret"].partition("/")
    if not separator or names.dns1123_label(namespace) or names.dns1123_subdomain(secret):
        raise click.BadParameter(
            f"{flags['tls_secret']!r} is not NAMESPACE/NAME, e.g. fairlead-system/{made.own_secret_name()}",
            param_hint="--tls-secret",
        )
    folder = flags["cert_dir"] or pathlib.Path(tempfile.mkdtemp(prefix="fairlead-webhook-"))
    values.make_folder("--cert-dir", folder)
    leaf, authority = (dt.timedelta(seconds=flags[f"{name}_lifetime"]) for name in ("certificate", "authority"))
    if leaf > authority / 2:
        raise click.UsageError("--certificate-lifetime: must be at most half of --authority-lifetime")
    return CertificateSettings(
        namespace=namespace,
        secret=secret,
        names=flags["tls_names"] or (made.service_name(namespace),),
        registrations=flags["registrations"] or made.REGISTRATIONS,
        folder=folder,
        lifetimes=Lifetimes(leaf=leaf, authority=authority, spread=min(Lifetimes().spread, authority / 12)),
    )


def _announce(port: int) -> None:
    click.echo(f"fairlead webhook listens on port {port}")


def _url(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    from urllib.parse import urlsplit

    if value and not (urlsplit(value).scheme == "https" and urlsplit(value).hostname):
        raise click.BadParameter(f"{value!r} is no URL such as https://10.0.0.1:9443; it must be HTTPS", ctx, parameter)
    return value


@command.command("manifests")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    metavar="PLURAL.GROUP",
    help="A custom resource to record grace periods of, e.g. virtualmachines.example.com. May be repeated.",
)
@click.option(
    "--evictions-of",
    "accounts",
    multiple=True,
    metavar="NAMESPACE/ACCOUNT",
    help="A drain driver's service account, whose evictions must come from the pod's own node. May be repeated.",
)
@click.option(
    "--namespace", default="fairlead-system", show_default=True, callback=values.label, help="Where the webhook runs."
)
@click.option(
    "--url",
    default="",
    callback=_url,
    help="Where the API server finds it, such as https://10.0.0.1:9443 [default: its Service].",
)
@click.option(
    "--ca-file", type=values.FILE, callback=values.pem_certificates, help="The certificate that signed the webhook's."
)
@click.option(
    "--image",
    default="",
    callback=values.image,
    help="Also print a Deployment of this image, whose certificate is in the Secret fairlead-deletion-webhook-tls "
    "(with --evictions-of: fairlead-webhook-tls).",
)
@click.option(
    "--own-certificates", is_flag=True, help="With --image: it makes and renews its certificates itself; no --ca-file."
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
    """Print the service account, its least rights, its Service and the registration, for `kubectl apply -f -`."""
    if url and image:
        raise click.UsageError("--image runs the webhook in the cluster, --url says that it runs elsewhere; name one")
    if own_certificates and (ca_file is not None or not image):
        raise click.UsageError("--own-certificates needs --image and excludes --ca-file: the webhook makes them itself")
    if not resources and not accounts:
        raise click.UsageError("say what it is for: --resource, --evictions-of, or both")
    from kube_fairlead.api.yamltext import emitter
    from kube_fairlead.webhook import manifests as made

    named = [_resource(text) for text in resources]
    authority = b"" if ca_file is None else ca_file.read_bytes()
    drivers = [_account(text) for text in accounts]
    base = url.removesuffix("/").removesuffix("/delete")
    # One that judges evictions too is the webhook that `fairlead install` sets up; one that does not stands beside it.
    name = made.NAME if drivers else made.DELETION_NAME
    registrations = [
        *([made.DELETION_REGISTRATION] if named else []),
        *([made.EVICTION_REGISTRATION] if drivers else []),
    ]
    at = {"namespace": namespace, "url": base and f"{base}/delete"}
    documents = [
        *made.access_manifests(named, namespace=namespace, name=name),
        *([] if url else [made.service(namespace, name=name)]),
        *(made.certificate_access(namespace, registrations=registrations, name=name) if own_certificates else []),
        *(
            made.workload_manifests(
                image,
                namespace=namespace,
                own_certificates=own_certificates,
                registrations=registrations,
                name=name,
            )
            if image
            else []
        ),
        *([made.registration(named, **at, authority=authority, name=name)] if named else []),
        *(
            made.eviction_manifests(drivers, namespace=namespace, url=base and f"{base}/evict", authority=authority)
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
