"""Write packages/*/public-surface.txt anew from the code. Run from the repository's root."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.architecture import surface

if __name__ == "__main__":
    surface.write_surface()
