"""The driver SDK: write a lifecycle driver as one small class.

    class Reboot(sdk.Driver):
        name = "example.com/reboot"
        transitions = (sdk.Transition(name="reboot", start="Rebooting", end="Rebooted", sla="10m"),)

        async def start(self, work: sdk.Work) -> None: ...

        async def end(self, work: sdk.Work, report: sdk.Report) -> None: ...

    sdk.main(Reboot())

The SDK serves on a socket, registers with the agent, runs each call once per event uid, cancels it at the deadline,
sends progress, answers health checks, serves probes and metrics over TLS, and supports rolling updates and a graceful
exit. What a transition does is up to the driver; nothing of that belongs here.
"""

from kube_fairlead.base.metrics import Metrics, PrometheusMetrics
from kube_fairlead.driverapi.messages import OfferedTransition as Transition
from kube_fairlead.driverapi.messages import PodReport, Progress, Work
from kube_fairlead.drivers.sdk.driver import Driver, Refused, Report
from kube_fairlead.drivers.sdk.pages import pages
from kube_fairlead.drivers.sdk.program import main
from kube_fairlead.drivers.sdk.serving import Options, Serving, serving

__all__ = [
    "Driver",
    "Metrics",
    "Options",
    "PodReport",
    "Progress",
    "PrometheusMetrics",
    "Refused",
    "Report",
    "Serving",
    "Transition",
    "Work",
    "main",
    "pages",
    "serving",
]
