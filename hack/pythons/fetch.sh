#!/usr/bin/env bash
# Makes a Python that this machine lacks from the packages of Debian's testing suite, for the tests of the wheels. Nothing is
# installed: the packages are unpacked into a cache folder, and the interpreter runs with the C library that came with it. apt
# checks the signatures. Prints the interpreter's path.
set -euo pipefail

version=${1:?usage: fetch.sh VERSION, such as 3.14}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/pythons/$version
fail() {
	echo "hack/pythons: $*" >&2
	exit 1
}

if [ ! -x "$cache/bin/python$version" ]; then
	command -v apt-get >/dev/null || fail "apt-get is needed to fetch python$version"
	mkdir -p "$(dirname "$cache")"
	scratch=$(mktemp -d "$cache.fetching.XXXXXX")
	trap 'rm -rf "$scratch"' EXIT
	mkdir -p "$scratch"/apt/{lists/partial,cache/archives/partial} "$scratch/debs" "$scratch/made/bin"
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' | head -n 1)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} testing main" \
		>"$scratch/apt/sources.list"
	options=(-qq -o "Dir::Etc::SourceList=$scratch/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o "Dir::State::Lists=$scratch/apt/lists" -o "Dir::Cache=$scratch/apt/cache" -o APT::Default-Release=
		-o "Dir::State::status=$scratch/apt/status" -o APT::Sandbox::User=root)
	: >"$scratch/apt/status" # as if nothing were installed, so that every dependency is named
	apt-get "${options[@]}" update >"$scratch/log" 2>&1 || fail "$(tail -n 3 "$scratch/log")"
	needed=$(apt-get "${options[@]}" -s install --no-install-recommends "python$version" 2>"$scratch/log" |
		sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -E "^(lib|python$version|zlib1g)" || true)
	[ -n "$needed" ] || fail "Debian testing has no python$version: $(tail -n 3 "$scratch/log")"
	# shellcheck disable=SC2086 # one word for each package
	(cd "$scratch/debs" && apt-get "${options[@]}" download $needed >"$scratch/log" 2>&1) || fail "$(tail -n 3 "$scratch/log")"
	for package in "$scratch"/debs/*.deb; do dpkg -x "$package" "$scratch/made/root"; done
	loader=$(cd "$scratch/made/root" && find . -name 'ld-linux-*.so.*' | head -n 1)
	[ -n "$loader" ] || fail "the C library's loader is not among $needed"
	cat >"$scratch/made/bin/python$version" <<-SCRIPT
		#!/bin/sh
		root=$cache/root
		libraries=\$root/usr/lib/$(uname -m)-linux-gnu:\$root/usr/lib:\$root/lib/$(uname -m)-linux-gnu
		exec "\$root/${loader#./}" --library-path "\$libraries" --argv0 "\$0" "\$root/usr/bin/python$version" "\$@"
	SCRIPT
	chmod +x "$scratch/made/bin/python$version"
	ln -s root/usr/lib "$scratch/made/lib" # where the interpreter looks for its library, seen from bin
	rm -rf "$cache"
	mv "$scratch/made" "$cache"
	"$cache/bin/python$version" -c 'import ctypes, sqlite3, ssl, zlib' || fail "python$version does not run"
fi
echo "$cache/bin/python$version"
