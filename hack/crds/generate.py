"""Write the CRD manifests of the lifecycle kinds to deploy/crds/, for both groups. Run from the repository's root."""

from __future__ import annotations

import pathlib

from fairlead.api import crds, reserved


def main() -> None:
    for group in (reserved.LIFECYCLE_GROUP, reserved.LIFECYCLE_GROUP_ALTERNATIVE):
        for name, text in crds.manifests(group).items():
            path = pathlib.Path("deploy/crds") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
