# SPDX-License-Identifier: MIT
# The short names; Meson does the building.
.PHONY: all demo test test-clients lint bench fuzz install clean
all:
	scripts/setup build
	[ -f build/build.ninja ] || meson setup build
	ninja -C build --quiet
demo: all
	scripts/demo
test: all
	scripts/test
test-clients: all
	scripts/test-clients
lint:
	scripts/lint
bench: all
	scripts/bench
fuzz:
	scripts/fuzz
install: all
	meson install -C build
clean:
	rm -rf build build-*
