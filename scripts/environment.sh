# SPDX-License-Identifier: MIT
# Sourced by the scripts: where the project keeps what it sets up on a machine, and the Python it runs on.
# Under sudo that is the invoking user's cache, so that root is needed for setting up and building only.
# The same rule as cache_root() in board/cache.py.
if [ -n "${SUDO_UID:-}" ]; then
	PANTHOR_CACHE=$(getent passwd "$SUDO_UID" | cut -d: -f6)/.cache/panthor-trace
else
	PANTHOR_CACHE=${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache}/panthor-trace
fi
PANTHOR_PYTHON=$PANTHOR_CACHE/venv/bin/python
case ${0##*/} in
setup) ;;
*)
	if [ ! -x "$PANTHOR_PYTHON" ]; then
		echo "${0##*/}: not set up yet: run scripts/setup as root first" >&2
		exit 125
	fi
	;;
esac
