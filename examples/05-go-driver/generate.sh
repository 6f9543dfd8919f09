#!/usr/bin/env bash
# Make Go of the contract. Any protoc will do; this one comes from PyPI, into a throw-away environment.
set -euo pipefail
cd "$(dirname "$0")"
bin="$(mktemp -d)"
trap 'rm -rf "$bin"' EXIT
GOBIN="$bin" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
GOBIN="$bin" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0
module=example.com/touch-driver
registration=pluginregistration/api.proto
driver=fairlead/lifecycle/v1alpha1/driver.proto
homes="module=$module,M$registration=$module/registrationpb;registrationpb,M$driver=$module/lifecyclepb;lifecyclepb"
PATH="$bin:$PATH" ../../.venv/bin/uv run -q --no-project --isolated --with "grpcio-tools==1.85.1" --with "setuptools<82" \
  python -m grpc_tools.protoc --proto_path=../../proto \
  --go_out=. --go_opt="$homes" --go-grpc_out=. --go-grpc_opt="$homes" "$registration" "$driver"
