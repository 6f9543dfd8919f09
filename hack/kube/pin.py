#!/usr/bin/env python3
"""Pins Kubernetes versions for `make kube`.

    hack/kube/pin.py 1.36.4 [1.37.1...]

Writes hack/kube/<minor>/go.mod and go.sum. The module zip of k8s.io/kubernetes leaves its staging modules out, and its
own go.mod replaces them by folders that only its repository has: so each is replaced here by the version that was
published with it (v1.36.4 of Kubernetes goes with v0.36.4 of k8s.io/client-go and the rest). Where the module proxy or
the checksum database does not have that patch of one, the newest patch before it that they have; pin.py says so.
Needs Go and the network.
"""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
COMPONENTS = HERE / "1.36" / "components.go"


def go(*arguments: str, folder: pathlib.Path = HERE) -> str:
    done = subprocess.run(["go", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def published(module: str, minor: str, patch: int) -> str:
    for candidate in range(patch, -1, -1):
        version = f"v0.{minor}.{candidate}"
        # Verified against the checksum database; a module that is not in it must not get into go.sum.
        done = subprocess.run(
            ["go", "mod", "download", f"{module}@{version}"], cwd=HERE, check=False, capture_output=True
        )
        if done.returncode == 0:
            if candidate != patch:
                print(f"{module}: {version}, since v0.{minor}.{patch} cannot be had and verified")
            return version
    sys.exit(f"pin.py: no version of {module} for 1.{minor} can be had and verified")


def pin(version: str) -> None:
    major, minor, patch = version.split(".")
    folder = HERE / f"{major}.{minor}"
    folder.mkdir(exist_ok=True)
    upstream = pathlib.Path(json.loads(go("mod", "download", "-json", f"k8s.io/kubernetes@v{version}"))["GoMod"])
    text = upstream.read_text(encoding="utf-8")
    staging = sorted(set(re.findall(r"(k8s\.io/\S+) => \./staging", text)))
    language = re.search(r"^go ([\d.]+)", text, re.MULTILINE)
    if not staging or language is None:
        sys.exit(f"pin.py: {upstream} is not what is expected of Kubernetes' go.mod")
    replaced = "".join(f"\t{module} => {module} {published(module, minor, int(patch))}\n" for module in staging)
    (folder / "go.mod").write_text(
        f"// Pins the real Kubernetes {version} that the tests run against.\n"
        "// The module zip of k8s.io/kubernetes leaves its staging modules out, so each is pinned here.\n"
        "module fairlead.dev/hack/kube\n\n"
        f"go {language[1]}\n\n"
        f"require k8s.io/kubernetes v{version}\n\n"
        f"replace (\n{replaced})\n",
        encoding="utf-8",
    )
    (folder / "go.sum").unlink(missing_ok=True)
    if folder != COMPONENTS.parent:
        shutil.copyfile(COMPONENTS, folder / COMPONENTS.name)
    # -e: tests of some dependencies import unpublished modules; the commands still build.
    go("mod", "tidy", "-e", folder=folder)
    print(f"{folder}: Kubernetes v{version}, {len(staging)} staging modules")


def main() -> None:
    versions = sys.argv[1:]
    if not versions or not all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions):
        sys.exit(__doc__)
    for version in versions:
        pin(version)


if __name__ == "__main__":
    main()
