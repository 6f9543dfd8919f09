"""Write the CRDs of the lifecycle kinds to deploy/crds/, for both groups, and for the embedded API server.

Run from the repository's root.
"""

from __future__ import annotations

import json
import pathlib

from kube_fairlead.api import crds, reserved


def main() -> None:
    for group in (reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE):
        for name, text in crds.manifests(group).items():
            path = pathlib.Path("deploy/crds") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path)
    built_in = pathlib.Path("packages/kube-fairlead-apiserver/src/kube_fairlead_apiserver/registry/lifecycle.json")
    built_in.write_text(json.dumps(crds.crds(), separators=(",", ":")) + "\n", encoding="utf-8")
    print(built_in)


if __name__ == "__main__":
    main()
