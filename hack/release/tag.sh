#!/usr/bin/env bash
# Checks that a tag such as kube-fairlead/v0.1.0 names files in dist. Prints the distribution and its version.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tag=${1:?usage: hack/release/tag.sh TAG}
distribution=${tag%%/v*}
version=${tag#*/v}
for file in "${distribution//-/_}-$version-py3-none-any.whl" "${distribution//-/_}-$version.tar.gz"; do
	if [ ! -f "dist/$file" ]; then
		echo "tag $tag: dist has no $file; it has: $(cd dist && echo *)" >&2
		exit 1
	fi
done
echo "distribution=$distribution"
echo "version=$version"
