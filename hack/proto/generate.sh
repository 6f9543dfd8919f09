#!/usr/bin/env bash
# Compile proto/ into the descriptors that are read at run time: the drivers' by kube_fairlead.driverapi, clouds' by
# kube_fairlead.cloud.providers.external, the container runtime's by kube_fairlead.agent.shutdown.cri. The compiler comes from
# PyPI, into a throw-away environment: nothing that runs needs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
COMPILER="grpcio-tools==1.85.1"
compile() { # TARGET FILE...
  local target=$1
  shift
  .venv/bin/uv run -q --no-project --isolated --with "$COMPILER" --with "setuptools<82" python -m grpc_tools.protoc \
    --proto_path=proto --include_imports --descriptor_set_out="$target" "$@"
  echo "$target"
}

compile packages/kube-fairlead/src/kube_fairlead/driverapi/contracts.binpb \
  pluginregistration/api.proto fairlead/lifecycle/v1alpha1/driver.proto grpc/health/v1/health.proto
compile packages/kube-fairlead/src/kube_fairlead/agent/shutdown/cri/contract.binpb runtime/v1/api.proto
compile packages/kube-fairlead/src/kube_fairlead/cloud/providers/external/contract.binpb fairlead/cloud/v1alpha1/provider.proto
