# `make help` lists the targets. Everything is installed into .venv, once.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
PYTHONS ?= python
ARGS ?=
FUZZ_SECONDS ?= 60
SEEDS ?= 100000
SCHEDULES ?= 1000
FIRST_SEED ?= 1
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
unexport MAKEFLAGS  # ninja would look for a job server there

NATIVE := $(wildcard native/*/*.cc native/*/*.h native/bypass/lwip/*.h native/bypass/lwip/*/*.h native/tests/*/*)
MODULE := CMakeLists.txt $(wildcard native/core/* native/dense/* native/wire/* native/io/* native/bindings/*)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
# pip compiles Python files one after the other. Here each core compiles, and tests of packages stay uncompiled. Without
# it every process would compile what it imports where PYTHONDONTWRITEBYTECODE is set.
COMPILE = { $(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true; }  # a few are not valid Python
# One at a time, also where make runs several targets.
ALONE = exec 9> $(VENV)/.installing && flock 9
INSTALL = $(ALONE) && $(BIN)/python scripts/requirements.py $(1) > $@.txt && $(PIP) -r $@.txt && $(COMPILE)
# native/bypass needs the headers that `make bypass` installs.
BYPASS_BUILT := $(and $(wildcard $(VENV)/.dpdk),$(wildcard build/lwip/COPYING))
CHECKED_ROOMS := core dense wire io bindings $(if $(BYPASS_BUILT),bypass)
LOCKS := $(patsubst native/%.cc,build/locks/%.checked,$(foreach room,$(CHECKED_ROOMS),$(wildcard native/$(room)/*.cc)))
BYPASS_TESTS := OFF
FUZZ_TARGETS := $(basename $(notdir $(wildcard native/tests/fuzz_*.cc)))
# Tests start thousands of processes; where PYTHONDONTWRITEBYTECODE is set, each would compile the sources for 0.2 s.
PYTEST := python -m compileall -qq -j 0 src && python -m pytest -n auto --dist worksteal
# A thread sanitizer needs the addresses that older kernels gave.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help train test check check-types check-locks format bench test-native test-python test-slow test-all \
	test-sanitizers test-asan test-tsan environment build-tests test-schedules fuzz simulate bypass test-bypass wheel wheel-aarch64 docs clean

help:  ## this list
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "  make %-15s  %s\n", $$1, $$2 }' Makefile

train: $(VENV)/.run $(VENV)/.module  ## train LunarLander-v3 until it lands; more options: ARGS="--seed 1"
	headrace train LunarLander-v3 --until-score 200 $(ARGS)

test: test-native test-python  ## native and Python tests, but not the slow ones; ARGS go to pytest

check: $(VENV)/.dev $(VENV)/.module $(VENV)/.clang  ## formatters, linter, types, import contracts, words, native locks
	ruff format --check .
	ruff check .
	@clang-format --dry-run -Werror $(NATIVE)
	@python scripts/check_words.py
	@$(MAKE) --no-print-directory --keep-going --output-sync --jobs="$$(nproc)" check-types check-locks

check-types:  # in one process, while the other cores check locks
	mypy
	lint-imports

check-locks: $(LOCKS)  # only files that changed since they last passed; rules: native/core/thread_safety.h

format: $(VENV)/.dev  ## let the formatters write
	ruff format .
	clang-format -i $(NATIVE)

bench: $(VENV)/.bench $(VENV)/.module  ## speed against peers and limits, into benchmarks/results; ARGS=--all: training too
	python -m benchmarks $(ARGS)

test-native: $(VENV)/.tools $(VENV)/.doctest  ## native tests and fuzzing for a fixed count
	$(build_native)
	$(call run_tests,build/native,native tests)

test-python: $(VENV)/.dev $(VENV)/.module $(VENV)/.redis  ## Python tests in several processes; in one: ARGS="-n0 -k replay"
	@echo "headrace: Python tests"
	@$(PYTEST) -m "not slow" $(ARGS)

test-slow: $(VENV)/.dev $(VENV)/.module $(VENV)/.redis  ## Python tests that make test leaves out
	@echo "headrace: slow Python tests"
	@$(PYTEST) -m slow $(ARGS)

test-all: test-native $(VENV)/.dev $(VENV)/.module $(VENV)/.redis  ## make test and make test-slow, which take less time together
	@echo "headrace: Python tests, the slow ones too"
	@$(PYTEST) $(ARGS)

test-schedules: $(VENV)/.dev $(VENV)/.module  ## SCHEDULES (1000) random simulated runs of each topology; about an hour of 2 cores; not part of CI
	@python scripts/test_schedules.py $(SCHEDULES) $(FIRST_SEED)

bypass: $(VENV)/.dpdk build/lwip/COPYING  ## server and clients with user-space networking (needs DPDK), into .venv
	@echo "headrace: building headrace-bypass and its client library"
	@cmake -S . -B build/bypass -G Ninja --log-level=WARNING -DHEADRACE_PYTHON=OFF -DHEADRACE_BYPASS=ON -DHEADRACE_TESTS=$(BYPASS_TESTS)
	@cmake --build build/bypass --target bypass $(if $(filter ON,$(BYPASS_TESTS)),bypass_tests) -- --quiet
	@install build/bypass/native/bypass/headrace-bypass $(BIN)
	@install build/bypass/native/bypass/libheadrace-bypass-client.so $(VENV)/lib

test-bypass: BYPASS_TESTS := ON
test-bypass: $(VENV)/.dev $(VENV)/.module $(VENV)/.doctest $(VENV)/.ethtool bypass  ## native and Python tests of user-space networking
	@ctest --test-dir build/bypass --output-on-failure --no-tests=error -R ^bypass_
	@python -m pytest -n0 tests/cli/test_bypass.py $(ARGS)

test-sanitizers: test-asan test-tsan  ## native tests under sanitizers

test-asan: $(VENV)/.tools $(VENV)/.doctest  ## native tests and fuzzing under the address and undefined-behavior sanitizers
	$(build_asan)
	$(call run_tests,build/asan,native tests under the address and undefined-behavior sanitizers)

test-tsan: $(VENV)/.tools $(VENV)/.doctest  ## native tests, which may have several threads, under the thread sanitizer
	$(build_tsan)
	$(call run_tests,build/tsan,native tests under the thread sanitizer,$(FIXED_ADDRESSES))

environment: $(VENV)/.dev $(VENV)/.clang $(VENV)/.redis  # all that checks and tests need

build-tests: $(VENV)/.tools $(VENV)/.doctest  # all that test-native and test-sanitizers run
	$(build_native)
	$(build_asan)
	$(build_tsan)

fuzz: $(VENV)/.dev $(VENV)/.fuzzer  ## every fuzz target in libFuzzer for FUZZ_SECONDS (60), going on from its corpus in build/fuzz
	cmake -S . -B build/fuzz -G Ninja --log-level=WARNING -DCMAKE_CXX_COMPILER=clang++ -DHEADRACE_PYTHON=OFF \
		-DHEADRACE_FUZZ=ON "-DHEADRACE_SANITIZE=address;undefined"
	cmake --build build/fuzz
	@for target in $(FUZZ_TARGETS); do \
		echo "$$target: $(FUZZ_SECONDS) s"; \
		mkdir -p build/fuzz/corpus/$$target; \
		(cd build/fuzz && ./$$target -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1 corpus/$$target); \
	done

simulate: $(VENV)/.dev $(VENV)/.doctest  ## SEEDS (100000) simulated runs with faults, from FIRST_SEED (1) on
	@cmake -S . -B build/native -G Ninja --log-level=WARNING -DHEADRACE_PYTHON=OFF -DHEADRACE_TESTS=ON
	@cmake --build build/native --target headrace_tests -- --quiet
	@HEADRACE_SEEDS=$(SEEDS) HEADRACE_FIRST_SEED=$(FIRST_SEED) build/native/headrace_tests "--source-file=*/simulation_test.cc"

wheel: $(VENV)/.wheel  ## a wheel into dist, tested without a compiler; PYTHONS="python3.11 python3.13" names the versions to test
	@echo "headrace: building the wheel"
	@$(call build_wheel,build/wheel,)
	@echo "headrace: testing the wheel"
	@python scripts/test_wheel.py build/wheel/repaired/*.whl $(PYTHONS)
	@install -D --mode=644 --target-directory=dist build/wheel/repaired/*.whl

wheel-aarch64: $(VENV)/.wheel $(VENV)/.aarch64  ## a wheel for aarch64 into dist, cross-compiled; to be tested there by scripts/test_wheel.py
	@echo "headrace: building the wheel for aarch64"
	@export _PYTHON_HOST_PLATFORM=linux-aarch64; $(call build_wheel,build/wheel-aarch64,--config-settings cmake.args=-DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/native/aarch64.cmake)
	@install -D --mode=644 --target-directory=dist build/wheel-aarch64/repaired/*.whl

docs: $(VENV)/.docs $(VENV)/.dev $(VENV)/.module  ## the documentation site into build/docs, after running its examples; warnings are errors
	@echo "headrace: running the tutorial, the examples and the checks of pages"
	@$(PYTEST) tests/test_code_blocks.py tests/test_documents.py tests/test_examples.py tests/test_plugin.py tests/test_tutorial.py
	@python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "headrace: open build/docs/index.html"

clean:  ## remove build outputs and caches; .venv and runs stay
	rm -rf build dist .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -f $(VENV)/.module

# A tagged wheel in the folder $(1); $(2) are further options of pip.
build_wheel = rm -rf $(1)/built $(1)/repaired && python -m pip --disable-pip-version-check wheel --quiet \
	--no-build-isolation --no-deps --config-settings build-dir=$(1)/objects $(2) --wheel-dir $(1)/built . \
	&& auditwheel repair --wheel-dir $(1)/repaired $(1)/built/*.whl

build_native = $(call build_tests,build/native,native tests,)
build_asan = $(call build_tests,build/asan,native tests for the address and undefined-behavior sanitizers,address;undefined)
build_tsan = $(call build_tests,build/tsan,native tests for the thread sanitizer,thread)

# $(1): folder, $(2): title, $(3): sanitizers
define build_tests
@echo "headrace: building $(2)"
@cmake -S . -B $(1) -G Ninja --log-level=WARNING -DHEADRACE_PYTHON=OFF -DHEADRACE_TESTS=ON "-DHEADRACE_SANITIZE=$(3)"
@cmake --build $(1) -- --quiet
endef

# $(1): folder, $(2): title, $(3): what to run them with
define run_tests
@echo "headrace: $(2)"
@$(3) ctest --test-dir $(1) --parallel $$(nproc) --output-on-failure
endef

build/locks/%.checked: native/%.cc build/locks/flags
	@mkdir -p $(@D)
	@clang++ @build/locks/flags $(STACK_FLAGS) -MMD -MP -MT $@ -MF $(@:.checked=.d) $<
	@touch $@

build/locks/bypass/%.checked: STACK_FLAGS = -isystem build/lwip/src/include -isystem native/bypass/lwip \
	$(patsubst -I%,-isystem %,$(shell pkg-config --cflags libdpdk))

build/locks/flags: Makefile $(VENV)/.run | $(VENV)/.clang
	@mkdir -p $(@D)
	@python -c 'import nanobind, sysconfig; print("-std=c++20 -fsyntax-only -Wthread-safety -Wthread-safety-beta -Werror -Inative", \
		"-isystem", nanobind.include_dir(), "-isystem", sysconfig.get_path("include"))' > $@

include $(wildcard $(LOCKS:.checked=.d))

$(VENV)/.python:
	scripts/virtual-environment $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.tools: $(VENV)/.python pyproject.toml constraints.txt
	@$(call INSTALL,--build-tools)
	@touch $@

$(VENV)/.run: $(VENV)/.tools
	@echo "headrace: installing dependencies into $(VENV) (once; torch takes a while)"
	@$(call INSTALL,box2d torch video)
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@$(call INSTALL,all dev)
	@touch $@

$(VENV)/.wheel: $(VENV)/.run
	@$(call INSTALL,wheel)
	@touch $@

$(VENV)/.aarch64: $(VENV)/.python
	@command -v aarch64-linux-gnu-g++ >/dev/null || scripts/system-package "a wheel for aarch64 needs its compiler" g++-aarch64-linux-gnu
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	@$(call INSTALL,docs)
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	@$(call INSTALL,all bench)
	@touch $@

$(VENV)/.module: $(VENV)/.run $(MODULE)
	@echo "headrace: building the native module"
	@$(ALONE) && $(PIP) --no-build-isolation --no-deps --editable .
	@touch $@

$(VENV)/.doctest: $(VENV)/.python
	@echo '#include <doctest/doctest.h>' | c++ -E -x c++ - >/dev/null 2>&1 || scripts/system-package "native tests need doctest" doctest-dev
	@touch $@

$(VENV)/.dpdk: $(VENV)/.dev
	@pkg-config --exists 'libdpdk >= 22.11' || scripts/system-package "headrace-bypass needs DPDK" pkg-config libdpdk-dev dpkg-dev
	@touch $@

$(VENV)/.ethtool: $(VENV)/.python
	@command -v ethtool >/dev/null || scripts/system-package "tests with network namespaces need ethtool" ethtool iproute2
	@touch $@

build/lwip/COPYING:
	@scripts/lwip-source build/lwip

$(VENV)/.clang: $(VENV)/.python
	@command -v clang++ >/dev/null || scripts/system-package "the check of locks needs clang" clang
	@touch $@

$(VENV)/.fuzzer: $(VENV)/.python
	@echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' \
		| clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null \
		|| scripts/system-package "fuzzing needs clang and its libFuzzer" clang libclang-rt-dev
	@touch $@

$(VENV)/.redis: $(VENV)/.python
	@command -v redis-server >/dev/null || command -v valkey-server >/dev/null || scripts/system-package "Redis tests need a server" redis-server
	@touch $@
