#!/usr/bin/env bash
# Gets golangci-lint into a file:
#
#	get.sh VERSION FILE
#
# The release archive is downloaded, by curl or wget, and its SHA-256 compared with the one in the file sums. Where
# there is no sum, no download or another sum, golangci-lint is built from its Go module, which the Go checksum
# database verifies. GOLANGCI_LINT_MIRROR is a URL that replaces https://github.com.
set -euo pipefail

version=${1:?usage: get.sh VERSION FILE} file=${2:?usage: get.sh VERSION FILE}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$(dirname "$file")"
work=$(mktemp -d "$file.XXXXXX")
trap 'rm -rf "$work"' EXIT

name=golangci-lint-${version#v}-$(go env GOHOSTOS)-$(go env GOHOSTARCH)
url=${GOLANGCI_LINT_MIRROR:-https://github.com}/golangci/golangci-lint/releases/download/$version/$name.tar.gz

# download prints why it fails.
download() {
	local want sum=sha256sum
	want=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' "$here/sums")
	[ -n "$want" ] || { echo "sums has none of $name.tar.gz"; return 1; }
	if command -v curl >/dev/null; then
		curl -fsSL --retry 2 --connect-timeout 5 -o "$work/archive" "$url" 2>&1 || return 1
	else
		wget -nv --tries 3 --connect-timeout 5 -O "$work/archive" "$url" 2>&1 || return 1
	fi
	command -v sha256sum >/dev/null || sum="shasum -a 256"
	echo "$want  $work/archive" | $sum -c --status 2>&1 || { echo "$url: WRONG SUM: its SHA-256 should be $want"; return 1; }
	tar -xzf "$work/archive" -C "$work" --strip-components 1 "$name/golangci-lint" 2>&1
}

if why=$(download); then
	echo "lint: golangci-lint $version downloaded"
else
	echo "lint: golangci-lint $version NOT DOWNLOADED: ${why##*$'\n'}" >&2
	echo "lint: building it instead (3 minutes with cold caches, once)" >&2
	GOBIN=$work go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$version"
fi
mv "$work/golangci-lint" "$file"
