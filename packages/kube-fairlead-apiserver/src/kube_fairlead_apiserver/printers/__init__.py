"""Tables: how `kubectl get` shows objects, decided by the server as Kubernetes does.

One module per family of kinds holds its columns and cells; `table` puts them together. A cell depends only on the
object: nothing here reads storage or the clock (ages are computed from a time argument).
"""

from __future__ import annotations

from kube_fairlead_apiserver.printers.table import table

__all__ = ["table"]
