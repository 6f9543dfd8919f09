"""Are the admission webhooks where API servers look for them, and trusted by them?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Final

from kube_fairlead.api import time as api_time
from kube_fairlead.base.certificates import Validity
from kube_fairlead.doctor.facts import Broken, Facts, Finding, Hook, NotRead, Severity, not_checked
from kube_fairlead.webhook.manifests import DELETION_REGISTRATION, EVICTION_REGISTRATION

__all__ = ["deletion_webhook", "eviction_webhook"]

# The webhook renews its own certificates long before this part of their life.
_NEAR_PART: Final = 6
_NEAR: Final = dt.timedelta(days=30)
_KIND: Final = "ValidatingWebhookConfiguration"


def deletion_webhook(facts: Facts) -> Iterator[Finding]:
    """`fairlead webhook`, without which stock Kubernetes forgets the grace period of custom resources."""
    hooks = [hook for hook in facts.hooks.value if hook.registration == DELETION_REGISTRATION]
    if not hooks and not facts.is_native:
        yield Finding(
            object=f"{_KIND}/{DELETION_REGISTRATION}",
            severity=Severity.INFO,
            problem="not registered: a deletion grace period of custom resources has no effect on this API server",
            fix="fairlead webhook manifests --resource=PLURAL.GROUP | kubectl apply -f -, for each kind with one",
        )
    away = "deletion grace periods of custom resources are not recorded, and deletes wait for it in vain"
    for hook in hooks:
        yield from _hook(hook, facts.now, away=away)
        if hook.failure_policy == "Fail":
            yield Finding(
                object=f"{_KIND}/{hook.registration}",
                severity=Severity.WARNING,
                problem="failurePolicy is Fail: while the webhook is away, deletes with a grace period are rejected",
                fix="apply the registration that fairlead webhook manifests prints, with failurePolicy Ignore",
            )


def eviction_webhook(facts: Facts) -> Iterator[Finding]:
    """The webhook that rejects a drain driver's evictions of other nodes' pods."""
    hooks = [hook for hook in facts.hooks.value if hook.registration == EVICTION_REGISTRATION]
    if not hooks and facts.agents.value:
        yield Finding(
            object=f"{_KIND}/{EVICTION_REGISTRATION}",
            severity=Severity.INFO,
            problem="not registered: the token of one node's drain driver can evict the pods of all nodes",
            fix="fairlead install --eviction-webhook=true | kubectl apply --server-side -f -",
        )
    for hook in hooks:
        yield from _hook(hook, facts.now, away="evictions by drain drivers are rejected, and drains do not progress")
        if hook.failure_policy != "Fail":
            yield Finding(
                object=f"{_KIND}/{hook.registration}",
                severity=Severity.WARNING,
                problem=f"failurePolicy is {hook.failure_policy}: while the webhook is away, a drain driver can evict "
                "the pods of other nodes",
                fix="apply the registration that fairlead install prints, with failurePolicy Fail",
            )


def _hook(hook: Hook, now: dt.datetime, *, away: str) -> Iterator[Finding]:
    parts = (
        (f"Service/{hook.service}", _service(hook, away)),
        (f"{_KIND}/{hook.registration}", _bundle(hook, now, away)),
        (f"Secret/{hook.secret}", _serving(hook, now, away)),
    )
    for named, part in parts:
        # A right that is missing for one part hides nothing of the others.
        try:
            yield from part
        except NotRead as missing:
            yield not_checked(missing, named)


def _service(hook: Hook, away: str) -> Iterator[Finding]:
    if not hook.service:
        return
    namespace, _, name = hook.service.partition("/")
    if not hook.service_exists.value:
        yield Finding(
            object=f"Service/{hook.service}",
            severity=Severity.ERROR,
            problem=f"missing, and {_KIND} {hook.registration} names it: {away}",
            fix=f"apply what was installed again, or delete the registration: "
            f"kubectl delete validatingwebhookconfiguration {hook.registration}",
        )
    elif not hook.ready_endpoints.value:
        yield Finding(
            object=f"Service/{hook.service}",
            severity=Severity.ERROR,
            problem=f"no endpoint is ready: {away}",
            fix=f"kubectl -n {namespace} get pods -l app.kubernetes.io/name={name} shows why the webhook does not run",
        )


def _bundle(hook: Hook, now: dt.datetime, away: str) -> Iterator[Finding]:
    named = f"{_KIND}/{hook.registration}"
    if not hook.has_bundle:
        if hook.service:
            yield Finding(
                object=named,
                severity=Severity.ERROR,
                problem=f"caBundle is empty, so that API servers do not trust the webhook: {away}",
                fix="a webhook that runs with --tls-secret fills it in; see the log of its pods",
            )
        return
    try:
        authorities = hook.authorities.value
    except Broken as why:
        yield Finding(
            object=named,
            severity=Severity.ERROR,
            problem=f"caBundle holds no certificates that can be read ({why}): {away}",
            fix="a webhook that runs with --tls-secret fills it in; see the log of its pods",
        )
        return
    valid = [one for one in authorities if one.since <= now < one.until]
    judged = max(valid or authorities, key=lambda one: one.until)
    # While authorities are replaced, the next one may be there before it is valid.
    if not valid or not any(one.since < judged.until < one.until for one in authorities):
        yield from _expiry(named, "caBundle", judged, now, away)


def _serving(hook: Hook, now: dt.datetime, away: str) -> Iterator[Finding]:
    if not hook.secret:
        return
    try:
        chain: Sequence[Validity] = hook.serving.value
    except Broken as why:
        yield Finding(
            object=f"Secret/{hook.secret}",
            severity=Severity.ERROR,
            problem=f"tls.crt holds no certificate that can be read ({why}): {away}",
            fix="delete the Secret if a webhook with --tls-secret keeps it, which makes it again; otherwise correct it",
        )
        return
    except NotRead as why:
        # Secrets are for few, and what API servers see is checked by the bundle and the endpoints too.
        yield Finding(
            object=f"Secret/{hook.secret}",
            severity=Severity.INFO,
            problem=f"serving certificate not checked: {why}",
            fix="run fairlead doctor as a user who may read this Secret",
        )
        return
    yield from _expiry(f"Secret/{hook.secret}", "serving certificate", chain[0], now, away)


def _expiry(named: str, what: str, validity: Validity, now: dt.datetime, away: str) -> Iterator[Finding]:
    until = api_time.format_time(validity.until)
    fix = "see the log of the webhook's pods, which renew it (--tls-secret); otherwise renew it where it was made"
    if now >= validity.until:
        yield Finding(object=named, severity=Severity.ERROR, problem=f"{what} expired at {until}: {away}", fix=fix)
    elif now < validity.since:
        since = api_time.format_time(validity.since)
        fix = "compare the clocks of the machines, or wait"
        yield Finding(
            object=named, severity=Severity.ERROR, problem=f"{what} is not valid before {since}: {away}", fix=fix
        )
    elif validity.until - now < min(_NEAR, (validity.until - validity.since) / _NEAR_PART):
        yield Finding(object=named, severity=Severity.WARNING, problem=f"{what} expires at {until}", fix=fix)
