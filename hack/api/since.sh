#!/usr/bin/env bash
# Prints what has changed in the public API of the module in the current folder since a commit or tag.
# Fails if a program that compiled before may no longer compile:
#
#	hack/api/since.sh v0.1.0
#
# apidiff compares, in the version of hack/tools/go.mod. Packages below hack, test and examples are not public.
set -euo pipefail
since=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$(git rev-parse --show-toplevel)"
module=$(go list -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd "$root" && go build -modfile=hack/tools/go.mod -o "$work/apidiff" golang.org/x/exp/cmd/apidiff)
mkdir "$work/before"
git archive "$since" | tar -x -C "$work/before"

# apidiff ARGUMENT… runs apidiff on modules. It does not print the internal packages that apidiff skips.
apidiff() { "$work/apidiff" -m "$@" 2> >(grep -v '^Ignoring internal package' >&2); }

(cd "$work/before" && apidiff -w "$work/before.export" "$module")
apidiff -w "$work/now.export" "$module"
apidiff "$work/before.export" "$work/now.export" >"$work/report"
awk -v since="$since" -v hidden="^- ([.]/|package $module/)(hack|test|examples)[/.:]" '
	/^[A-Z][a-z]+ changes:$/ { kind = tolower($1); next }
	$0 ~ hidden { next }
	{ count[kind]++; print kind ": " substr($0, 3) }
	END {
		printf "api: since %s: %d incompatible, %d compatible\n", since, count["incompatible"], count["compatible"]
		if (count["incompatible"] > 0) {
			print "api: incompatible changes need a new minor version (before 1.0), and an entry under Changed or Removed in CHANGELOG.md"
			exit 1
		}
	}' "$work/report"
