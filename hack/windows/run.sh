#!/usr/bin/env bash
# Runs a command with the components that the tests for Windows need. Without apt the command runs as it is, and reports
# what is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
FAIRLEAD_WINDOWS=
if command -v apt-get >/dev/null; then
	FAIRLEAD_WINDOWS=$("$here/fetch.sh")
fi
export FAIRLEAD_WINDOWS
exec "$@"
