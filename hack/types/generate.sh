#!/usr/bin/env bash
# Writes packages/kube-fairlead-apiserver/src/kube_fairlead_apiserver/types/builtin.json anew from the Kubernetes version that go.mod pins.
#
#   hack/types/generate.sh
#
# Needs Go, curl and openssl, and the binaries of `make kube`: which resources exist, under which names and with which
# verbs, is asked of a real kube-apiserver that runs for a few seconds on loopback.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
output=$here/../../packages/kube-fairlead-apiserver/src/kube_fairlead_apiserver/types/builtin.json
fixtures=$here/../../tests/unit/apiserver/types/testdata
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead
version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$here/go.mod")
kube=$cache/kube/$version/bin

die() { echo "make types: $*" >&2; exit 1; }

command -v go >/dev/null || die "Go is not installed; install Go 1.26 or newer (https://go.dev/doc/install)"
etcd=$(find "$cache/etcd" -name etcd -type f -perm -u+x 2>/dev/null | sort -V | tail -1)
[ -x "$kube/kube-apiserver" ] && [ -n "$etcd" ] || die "kube-apiserver $version or etcd is missing; run 'make kube' first"

scratch=$(mktemp -d)
processes=()
# Killed at once: a kube-apiserver without etcd never ends by itself.
trap 'kill -KILL "${processes[@]}" 2>/dev/null || true; wait 2>/dev/null; rm -rf "$scratch"' EXIT

free_ports() { # N
	python3 -c 'import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))' "$1"
}
read -r client_port peer_port api_port < <(free_ports 3)

"$etcd" --data-dir "$scratch/etcd" \
	--listen-client-urls "http://127.0.0.1:$client_port" --advertise-client-urls "http://127.0.0.1:$client_port" \
	--listen-peer-urls "http://127.0.0.1:$peer_port" --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" \
	--initial-cluster "default=http://127.0.0.1:$peer_port" >"$scratch/etcd.log" 2>&1 &
processes+=($!)
openssl genrsa -out "$scratch/sa.key" 2048 2>/dev/null
token=$(openssl rand -hex 16)
echo "$token,generator,1,system:masters" >"$scratch/tokens"
chmod 600 "$scratch/tokens"
"$kube/kube-apiserver" --etcd-servers "http://127.0.0.1:$client_port" --secure-port "$api_port" \
	--bind-address 127.0.0.1 --cert-dir "$scratch/certs" --token-auth-file "$scratch/tokens" \
	--authorization-mode RBAC --service-account-issuer https://kubernetes.default.svc \
	--service-account-key-file "$scratch/sa.key" --service-account-signing-key-file "$scratch/sa.key" \
	--endpoint-reconciler-type none --service-cluster-ip-range 10.0.0.0/24 >"$scratch/apiserver.log" 2>&1 &
processes+=($!)

get() { # PATH [CURL_ARGUMENT...]
	local path=$1
	shift
	curl -sSf --cacert "$scratch/certs/apiserver.crt" -H "Authorization: Bearer $token" "$@" "https://127.0.0.1:$api_port$path"
}
for _ in $(seq 240); do
	get /readyz >/dev/null 2>&1 && break
	kill -0 "${processes[@]}" 2>/dev/null || die "a server ended early: $(tail -3 "$scratch"/*.log)"
	sleep 0.5
done
aggregated='Accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
get /api -H "$aggregated" >"$scratch/api.json"
get /apis -H "$aggregated" >"$scratch/apis.json"

mkdir -p "$fixtures"
cd "$here"
go run -mod=readonly . -discovery "$scratch" -output "$output" -samples "$fixtures/samples.json.gz"
