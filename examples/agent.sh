#!/bin/sh
# SPDX-License-Identifier: MIT
# A small agent: does a job in its workspace, then tries what it should not be able to do.

try() { # what, command...
	what=$1
	shift
	if "$@" >/tmp/out 2>&1; then
		printf '  !! %-38s it worked: %s\n' "$what" "$(head -n 1 /tmp/out)"
	else
		printf '  ok %-38s %s\n' "$what" "$(head -n 1 /tmp/out | cut -c 1-72)"
	fi
}

echo "agent: I am $(id -un) in $(pwd), run $RUN_ID"
echo "agent: doing my job"
wc -w <task.txt >answer.txt

echo "agent: and now, what else is here?"
try "read a key from the environment" sh -c 'test -n "$DEMO_API_KEY" && echo "$DEMO_API_KEY" ||
	{ echo "DEMO_API_KEY is not set here"; false; }'
try "read the key of the caller's process" sh -c 'tr "\0" "\n" </proc/1/environ | grep KEY'
try "read a secret file of the caller" cat "$CALLER_SECRET"
try "reach an address on the network" bash -c ': </dev/tcp/192.0.2.1/443'
try "resolve a name" bash -c ': </dev/tcp/example.com/443'
try "become root" unshare --map-root-user id
try "write outside the workspace" touch /usr/bin/evil
try "mount something" mount -t tmpfs none /tmp
try "signal a process of the caller" kill -0 "$CALLER_PID"
