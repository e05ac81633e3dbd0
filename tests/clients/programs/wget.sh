# SPDX-License-Identifier: MIT
# wget; the arguments are options of its.
set -eu
printf '0123456789%.0s' $(seq 10000) >/tmp/upload

ask() { # PATH OPTION...
	path=$1
	shift
	wget -nv -S --tries=1 -O /tmp/body "$@" "$BASE$path" 2>/tmp/head || {
		cat /tmp/head >&2
		exit 1
	}
	# shellcheck disable=SC2046
	set -- $(grep -m 1 HTTP/ /tmp/head)
	version=$1 status=$2
}

show() {
	printf '{"status":%d,"version":"%s","body":%s}\n' "$status" "$version" "$(cat /tmp/body)"
}

ask /echo "$@" --header "Authorization: Bearer $TOKEN"
show
ask /echo "$@" --header "X-Api-Key: $TOKEN" --post-file /tmp/upload
show
ask /blob "$@" --header "X-Api-Key: $TOKEN"
printf '{"status":%d,"version":"%s","length":%d}\n' "$status" "$version" "$(wc -c </tmp/body)"
