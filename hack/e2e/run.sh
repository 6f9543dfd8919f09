#!/usr/bin/env bash
# Runs a command in its own network namespace, with the components of real nodes. Its bridges and addresses do not affect
# the machine. Without root the command runs as it is, and reports what is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ "$(id -u)" != 0 ]; then
	FAIRLEAD_E2E= exec "$@"
fi
FAIRLEAD_E2E=$("$here/fetch.sh")
export FAIRLEAD_E2E
exec unshare --net -- bash -c 'ip link set lo up && exec "$@"' run "$@"
