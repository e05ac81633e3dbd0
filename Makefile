# SPDX-License-Identifier: MIT
# The short names; Meson does the building.
.PHONY: all demo test lint bench fuzz install clean
all:
	scripts/setup build
	[ -f build/build.ninja ] || meson setup build
	ninja -C build --quiet
demo: all
	scripts/demo
test: all
	scripts/test
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
