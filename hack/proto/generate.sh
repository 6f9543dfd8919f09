#!/usr/bin/env bash
# Compile proto/ into the descriptors that fairlead.driverapi reads at run time. The compiler comes from PyPI, into a
# throw-away environment: nothing that runs needs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
COMPILER="grpcio-tools==1.85.1"
.venv/bin/uv run -q --no-project --isolated --with "$COMPILER" --with "setuptools<82" python -m grpc_tools.protoc \
  --proto_path=proto --include_imports --descriptor_set_out=src/fairlead/driverapi/contracts.binpb \
  pluginregistration/api.proto fairlead/lifecycle/v1alpha1/driver.proto grpc/health/v1/health.proto
echo src/fairlead/driverapi/contracts.binpb
