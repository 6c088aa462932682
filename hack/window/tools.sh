#!/usr/bin/env bash
# Gets what the tests of the window's page need besides Go, as far as it isn't there:
#
#	tools.sh FOLDER PACKAGE@VERSION…
#
# The packages of npm go to FOLDER/node_modules. A Chromium is the machine's own: as root, where there is
# apt-get, it is installed. Nothing of this is part of the library, or of the page.
set -euo pipefail

fail() { echo "window-tools: $*" >&2; exit 1; }

folder=${1:?usage: tools.sh FOLDER PACKAGE@VERSION…}
shift

# One of them is enough; test/window looks for the same, and WINDOW_CHROMIUM names another.
browser() {
	if [ -n "${WINDOW_CHROMIUM:-}" ]; then
		command -v "$WINDOW_CHROMIUM" || fail "there is no WINDOW_CHROMIUM=$WINDOW_CHROMIUM"
	else
		command -v chromium || command -v chromium-browser || command -v google-chrome
	fi
}

# install PACKAGE [OPTION] has apt-get install a package, if it may. The lists of packages of a new machine are empty.
install() {
	[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
	echo "window-tools: installing $1 by apt-get"
	export DEBIAN_FRONTEND=noninteractive
	apt-get -qq update >&2 && apt-get -qq install -y "$@" >&2
}

command -v npm >/dev/null || install npm --no-install-recommends || fail "there is no npm: install Node.js with it, as by apt-get install npm (Debian, Ubuntu), or from nodejs.org"

wanted=$*
mkdir -p "$folder"
if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
	echo "window-tools: installing $wanted by npm"
	rm -f "$folder/installed"
	echo '{"private": true}' >"$folder/package.json"
	(cd "$folder" && npm install --ignore-scripts --no-audit --no-fund --save-exact --loglevel=error "$@") || fail "npm couldn't install $wanted; its words are above"
	echo "$wanted" >"$folder/installed"
fi

browser >/dev/null || install chromium || fail "there is no Chromium: install it, as by apt-get install chromium (Debian), dnf install chromium (Fedora), or brew install --cask chromium (macOS), so that it is in PATH"
echo "window-tools: $(browser) and $wanted are there"
