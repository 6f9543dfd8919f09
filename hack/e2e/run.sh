#!/usr/bin/env bash
# Runs a command in a network of its own, with the parts of real nodes at hand. What it does there, bridges and
# addresses and all, the machine itself never sees. Without root the command runs as it is, and says what it lacks.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ "$(id -u)" != 0 ]; then
	FAIRLEAD_E2E= exec "$@"
fi
FAIRLEAD_E2E=$("$here/fetch.sh")
export FAIRLEAD_E2E
exec unshare --net -- bash -c 'ip link set lo up && exec "$@"' run "$@"
