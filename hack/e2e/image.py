"""Writes a docker archive with one busybox layer and two images: a shell, and a pause. `image.py BUSYBOX OUT.tar`"""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import sys
import tarfile

TOOLS = ("cat", "date", "echo", "env", "false", "kill", "ls", "mkdir", "ps", "sh", "sleep", "sync", "touch", "true")
PAUSE = ["/bin/sh", "-c", 'trap "exit 0" TERM INT; while :; do sleep 100000 & wait; done']
IMAGES = {"registry.local/busybox:1": ["/bin/sh"], "registry.local/pause:1": PAUSE}
CREATED = "2026-01-01T00:00:00Z"


def add(archive: tarfile.TarFile, name: str, data: bytes = b"", mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.size = mode, len(data)
    archive.addfile(entry, io.BytesIO(data))


def layer(busybox: pathlib.Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for folder in ("bin", "dev", "etc", "proc", "root", "sys", "tmp"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        add(archive, "bin/busybox", busybox.read_bytes())
        for tool in TOOLS:
            link = tarfile.TarInfo(f"bin/{tool}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
        add(archive, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n", 0o644)
        add(archive, "etc/group", b"root:x:0:\n", 0o644)
    return content.getvalue()


def write(out: pathlib.Path, content: bytes, images: dict[str, list[str]], path: str = "/bin") -> None:
    """An archive of images that share one layer."""
    digest = hashlib.sha256(content).hexdigest()
    manifest = []
    with tarfile.open(out, "w") as archive:
        add(archive, f"{digest}/layer.tar", content, 0o644)
        for reference, command in images.items():
            config = {
                "architecture": "amd64",
                "os": "linux",
                "created": CREATED,
                "config": {"Env": [f"PATH={path}"], "Entrypoint": command, "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                "history": [{"created": CREATED}],
            }
            data = json.dumps(config).encode()
            name = f"{hashlib.sha256(data).hexdigest()}.json"
            add(archive, name, data, 0o644)
            manifest.append({"Config": name, "RepoTags": [reference], "Layers": [f"{digest}/layer.tar"]})
        add(archive, "manifest.json", json.dumps(manifest).encode(), 0o644)


def main() -> None:
    busybox, out = map(pathlib.Path, sys.argv[1:])
    write(out, layer(busybox), IMAGES)


if __name__ == "__main__":
    main()
