#!/usr/bin/env bash
# Installs the wheels of dist into empty environments outside the repository, and runs what they bring.
#
#   hack/release/install.sh [PYTHON]      default: python3
set -euo pipefail

python=$(command -v "${1:-python3}")
dist=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../dist" && pwd)
product=$(echo "$dist"/kube_fairlead-*.whl)
others=("$dist"/kube_fairlead_*.whl)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# The product alone: a command of another distribution names the package that has it.
"$python" -m venv alone
alone/bin/pip install -q --disable-pip-version-check "$product"
alone/bin/fairlead --version
code=0
alone/bin/fairlead apiserver 2>refusal || code=$?
if [ "$code" != 2 ] || ! grep -q kube-fairlead-apiserver refusal; then
	echo "fairlead apiserver without its package: exit code $code, not 2 with the name of the package" >&2
	cat refusal >&2
	exit 1
fi

# All three, by the extra.
"$python" -m venv all
all/bin/pip install -q --disable-pip-version-check "${product}[all]" "${others[@]}" pytest
all/bin/fairlead demo --scene api-server --scene graceful-deletion
# The plugin is found by being installed, and starts an API server by itself.
cat >test_plugin.py <<'TEST'
def test_a_server_is_there(fairlead_apiserver):
    assert fairlead_apiserver.url.startswith("https://")
TEST
all/bin/pytest -q -p no:cacheprovider test_plugin.py
echo "installed and run on $(all/bin/python --version)"
