#!/usr/bin/env bash
# Builds every distribution into dist: the source archive, and from that archive the wheel, so that an archive which lacks
# a file does not build.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
rm -rf dist
for distribution in packages/*/; do
	.venv/bin/uv build -q --out-dir dist "$distribution"
done
