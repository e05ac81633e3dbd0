# SPDX-License-Identifier: MIT
# curl; the arguments are options of its.
set -eu
printf '0123456789%.0s' $(seq 10000) >/tmp/upload

ask() { # PATH OPTION...
	path=$1
	shift
	curl -sS -o /tmp/body -w '%{http_code} %{http_version}' "$@" "$BASE$path" >/tmp/status
	read -r status version </tmp/status || :
}

show() {
	printf '{"status":%d,"version":"%s","body":%s}\n' "$status" "$version" "$(cat /tmp/body)"
}

ask /echo "$@" -H "Authorization: Bearer $TOKEN"
show
ask /echo "$@" -H "X-Api-Key: $TOKEN" --data-binary @/tmp/upload
show
ask /blob "$@" -H "X-Api-Key: $TOKEN"
printf '{"status":%d,"version":"%s","length":%d}\n' "$status" "$version" "$(wc -c </tmp/body)"
