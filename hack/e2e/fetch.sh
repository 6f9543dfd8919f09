#!/usr/bin/env bash
# Fetches what a real node needs beside the kubelet: containerd, runc, CNI plugins, busybox. Debian's packages, unpacked
# into a cache folder without installing anything; apt checks their signatures. Prints the folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/e2e
packages=(containerd runc containernetworking-plugins busybox-static)

if [ ! -e "$cache/images.tar" ]; then
	command -v apt-get >/dev/null || { echo "make e2e: apt-get is needed to fetch containerd and runc" >&2; exit 1; }
	mkdir -p "$(dirname "$cache")"
	scratch=$(mktemp -d "$cache.fetching.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	(cd "$scratch" && apt-get download -q "${packages[@]}" >/dev/null 2>"$scratch/apt.log") || {
		cat "$scratch/apt.log" >&2
		echo "make e2e: cannot download ${packages[*]}" >&2
		exit 1
	}
	for package in "$scratch"/*.deb; do dpkg -x "$package" "$scratch/root"; done
	python3 "$here/image.py" "$scratch/root/bin/busybox" "$scratch/images.tar"
	rm -rf "$cache"
	mkdir -p "$cache"
	mv "$scratch/root" "$cache/root"
	mv "$scratch/images.tar" "$cache/images.tar" # last: it says that all is there
fi
echo "$cache"
