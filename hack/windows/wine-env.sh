# The environment in which Wine runs from the folder that fetch.sh made: . wine-env.sh FOLDER
# shellcheck shell=bash
export PATH=$1/root/usr/lib/wine:$PATH
export LD_LIBRARY_PATH=$1/root/usr/lib/x86_64-linux-gnu
export WINEDEBUG=-all
unset DISPLAY WAYLAND_DISPLAY
