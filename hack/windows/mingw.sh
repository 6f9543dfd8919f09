#!/usr/bin/env bash
# Runs the C compiler of mingw-w64 from the folder that fetch.sh made: mingw.sh FOLDER ARGUMENTS...
set -euo pipefail
root=$1/root
shift
export PATH=$root/usr/bin:$PATH
export LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec x86_64-w64-mingw32-gcc-posix -B"$root/usr/x86_64-w64-mingw32/bin/" -isystem "$root/usr/share/mingw-w64/include" \
	-isystem "$root/usr/x86_64-w64-mingw32/include" -L"$root/usr/x86_64-w64-mingw32/lib" \
	-B"$root/usr/x86_64-w64-mingw32/lib/" "$@"
