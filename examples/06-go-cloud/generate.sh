#!/usr/bin/env bash
# Make Go of the contract. Any protoc will do; this one comes from PyPI, into a throw-away environment.
set -euo pipefail
cd "$(dirname "$0")"
bin="$(mktemp -d)"
trap 'rm -rf "$bin"' EXIT
GOBIN="$bin" go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
GOBIN="$bin" go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0
module=example.com/nimbus-cloud
contract=fairlead/cloud/v1alpha1/provider.proto
homes="module=$module,M$contract=$module/cloudpb;cloudpb"
PATH="$bin:$PATH" ../../.venv/bin/uv run -q --no-project --isolated --with "grpcio-tools==1.85.1" --with "setuptools<82" \
  python -m grpc_tools.protoc --proto_path=../../proto \
  --go_out=. --go_opt="$homes" --go-grpc_out=. --go-grpc_opt="$homes" "$contract"
