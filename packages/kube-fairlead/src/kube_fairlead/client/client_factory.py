"""From flags, files or a pod's own account to a client.

Upstream: k8s.io/client-go@v0.36.4/tools/clientcmd/merged_client_builder.go
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from kube_fairlead.api.scheme import Scheme
from kube_fairlead.base.clock import Clock, RealClock
from kube_fairlead.base.environment import Environment
from kube_fairlead.base.randomness import Randomness, SystemRandomness
from kube_fairlead.client import errors, incluster, kubeconfig, retry
from kube_fairlead.client.client import Client
from kube_fairlead.client.server_access import Access

__all__ = ["connect", "connect_to", "find_access"]


def find_access(
    *,
    kubeconfig_path: pathlib.Path | None = None,
    context: str = "",
    environment: Environment | None = None,
    clock: Clock | None = None,
) -> Access:
    """Find the server, as kubectl does: the file named, else KUBECONFIG, else ~/.kube/config, else the pod's account.

    Raises:
        ConfigError: there is none, or it is broken.
    """
    environment = environment or Environment.of_process()
    clock = clock or RealClock()
    if kubeconfig_path is not None:
        config = kubeconfig.read([kubeconfig_path])
        if not config.paths:
            raise errors.KubeconfigError("does not exist", path=kubeconfig_path)
        return kubeconfig.access_for(config, context=context, environment=environment, clock=clock)
    paths = kubeconfig.default_paths(environment)
    config = kubeconfig.read(paths)
    if config.contexts or context:
        return kubeconfig.access_for(config, context=context, environment=environment, clock=clock)
    if incluster.is_in_cluster(environment):
        return incluster.load(environment, clock)
    raise errors.KubeconfigError(f"{_why_none(paths, environment)}, and this is no pod; name a file with --kubeconfig")


def _why_none(paths: Sequence[pathlib.Path], environment: Environment) -> str:
    missing = [path for path in paths if not path.exists()]
    there = [path for path in paths if path not in missing]
    named_by = "KUBECONFIG names " if environment.get("KUBECONFIG") else ""
    said = [f"{named_by}{path}, which does not exist" if named_by else f"{path} does not exist" for path in missing]
    if there:
        said.append(f"no context found in {', '.join(str(path) for path in there)}")
    return "; ".join(said)


def connect(
    *,
    kubeconfig_path: pathlib.Path | None = None,
    context: str = "",
    component: str = "",
    environment: Environment | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    retry_policy: retry.RetryPolicy = retry.DEFAULT,
    scheme: Scheme | None = None,
) -> Client:
    """A client for the server that `find_access` finds. No connection is made before the first request.

    Raises:
        ConfigError: there is no configuration, or it is broken.
    """
    access = find_access(kubeconfig_path=kubeconfig_path, context=context, environment=environment, clock=clock)
    return connect_to(
        access,
        component=component,
        environment=environment,
        clock=clock,
        randomness=randomness,
        retry_policy=retry_policy,
        scheme=scheme,
    )


def connect_to(
    access: Access,
    *,
    component: str = "",
    environment: Environment | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
    retry_policy: retry.RetryPolicy = retry.DEFAULT,
    scheme: Scheme | None = None,
) -> Client:
    """A client for a server that is already known."""
    from kube_fairlead.client.http import HttpTransport  # loaded only where HTTP is spoken

    clock = clock or RealClock()
    transport = HttpTransport(
        access, clock=clock, environment=environment or Environment.of_process(), component=component
    )
    return Client(
        transport,
        clock=clock,
        randomness=randomness or SystemRandomness(),
        namespace=access.namespace,
        retry_policy=retry_policy,
        scheme=scheme,
    )
