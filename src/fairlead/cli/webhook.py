"""`fairlead webhook`: the shim for stock Kubernetes as a process, and the manifests that register it."""

from __future__ import annotations

import pathlib

import click

from fairlead.api import names
from fairlead.api.gvk import GroupResource
from fairlead.base.gates import FeatureGates
from fairlead.cli import options, process, values
from fairlead.cli.invocation import Invocation

__all__ = ["command", "manifests"]


def _address(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    return values.bind_address(ctx, parameter, value) if value else value


@click.group("webhook", invoke_without_command=True)
@click.option("--kubeconfig", type=values.FILE, help="How to reach the API server [default: as kubectl finds it].")
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
    help="The certificate to show to API servers; read again when it changes. [required to serve]",
)
@click.option("--tls-private-key-file", type=values.FILE, help="Its key. [required to serve]")
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
@options.feature_gates
@options.logging
@click.pass_context
def command(
    context: click.Context,
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
) -> None:
    """Record the deletion grace of custom resources on stock Kubernetes.

    A DELETE admission webhook for controllers that use fairlead.grace. It notes on the object until when its clean-up
    may take, under the rule that a deadline only ever moves earlier, and never refuses a delete.
    """
    del feature_gates  # every component takes them; none of them is about this one
    if context.invoked_subcommand is not None:
        return
    if tls_cert_file is None or tls_private_key_file is None:
        raise click.UsageError("--tls-cert-file and --tls-private-key-file are needed: API servers only speak HTTPS")
    if client_names and client_ca_file is None:
        raise click.UsageError("--client-name needs --client-ca-file: without it no certificate is asked for")
    values.check_key_pair(tls_cert_file, tls_private_key_file)
    from fairlead import client
    from fairlead.base.metrics import PrometheusMetrics
    from fairlead.webhook import server

    invocation: Invocation = context.find_root().obj
    settings = server.Settings(
        certificate=tls_cert_file,
        key=tls_private_key_file,
        bind_address=bind_address,
        port=secure_port,
        client_ca=client_ca_file,
        client_names=frozenset(client_names),
    )

    async def serve() -> None:
        async with client.connect(
            kubeconfig_path=kubeconfig,
            context=kube_context,
            component="fairlead-webhook",
            environment=invocation.environment,
        ) as api_server:
            await server.serve(api_server, PrometheusMetrics(process_metrics=True), settings, _announce)

    process.run(serve)


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
    help="Also print a Deployment of this image, whose certificate is in the Secret fairlead-webhook-tls.",
)
def manifests(
    *,
    resources: tuple[str, ...],
    accounts: tuple[str, ...],
    namespace: str,
    url: str,
    ca_file: pathlib.Path | None,
    image: str,
) -> None:
    """Print the service account, its least rights, its Service and the registration, for `kubectl apply -f -`."""
    if url and image:
        raise click.UsageError("--image runs the webhook in the cluster, --url says that it runs elsewhere; name one")
    if not resources and not accounts:
        raise click.UsageError("say what it is for: --resource, --evictions-of, or both")
    from fairlead.api.yamltext import writing
    from fairlead.webhook import manifests as made

    named = [_resource(text) for text in resources]
    authority = b"" if ca_file is None else ca_file.read_bytes()
    drivers = [_account(text) for text in accounts]
    base = url.removesuffix("/").removesuffix("/delete")
    documents = [
        *made.access_manifests(named, namespace=namespace),
        *([] if url else [made.service(namespace)]),
        *(made.workload_manifests(image, namespace=namespace) if image else []),
        *(
            [made.registration(named, namespace=namespace, url=base and f"{base}/delete", authority=authority)]
            if named
            else []
        ),
        *(
            made.eviction_manifests(drivers, namespace=namespace, url=base and f"{base}/evict", authority=authority)
            if drivers
            else []
        ),
    ]
    click.echo(writing.write_all(documents), nl=False)


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
