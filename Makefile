# pgwork: libraries and command line tool into build/. GNU make; gcc or clang; libpq.
#   make              everything that ships, and the examples
#   make check-it     unit and integration tests, the latter on a private PostgreSQL
#   make help         all targets
# Packagers: PREFIX, DESTDIR, the directories below, CC, CFLAGS, CPPFLAGS, LDFLAGS as usual; HARDEN=. Without the gem ceedling,
# which `check` needs: make check-abi check-fuzz check-header check-examples.

# Every rule is written here.
MAKEFLAGS += --no-builtin-rules

# The header holds the only copy of the version.
HEADERS := inc/pgwork.h $(sort $(wildcard inc/pgwork/*.h))
VERSION := $(shell sed -n 's/^.define PGW_VERSION_STRING "\(.*\)".*/\1/p' inc/pgwork.h)
# major.minor: while the version starts with 0, each minor one has an ABI of its own
SOVERSION := $(basename $(VERSION))

B ?= build
G = $(B)/generated
PREFIX ?= /usr/local
bindir ?= $(PREFIX)/bin
includedir ?= $(PREFIX)/include
libdir ?= $(PREFIX)/lib
datadir ?= $(PREFIX)/share
mandir ?= $(datadir)/man
docdir ?= $(datadir)/doc/pgwork
pkgconfigdir ?= $(libdir)/pkgconfig
cmakedir ?= $(libdir)/cmake/pgwork
bashcompdir ?= $(datadir)/bash-completion/completions
zshcompdir ?= $(datadir)/zsh/site-functions
unitdir ?= $(PREFIX)/lib/systemd/system
INSTALL ?= install
LDCONFIG ?= ldconfig
CFLAGS ?= -O2 -g
# Warnings of compilers that we have not seen are not errors for who builds; `run` sets it to 1.
WERROR ?= 0

SRC := $(sort $(wildcard src/*/*.c))
SRC_H := $(sort $(wildcard src/*/*.h))
CLI_SRC := $(sort $(wildcard examples/pgwork/*.c))
EX_SRC := $(sort $(wildcard examples/*.c))
BENCH_SRC := $(sort $(wildcard bench/*.c))
SQL := $(sort $(wildcard src/sql/*.sql)) $(sort $(wildcard migrations/*.sql))
OBJ := $(SRC:src/%.c=$(B)/obj/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/obj/%.o)
CLI := $(if $(CLI_SRC),$(B)/pgwork)
UI_SRC := $(sort $(wildcard examples/pgwork-ui/*.c))
UI_OBJ := $(UI_SRC:%.c=$(B)/obj/%.o)
UNITS := $(patsubst examples/systemd/%.in,$(B)/%,$(sort $(wildcard examples/systemd/*.in)))

SO_NAME := libpgwork.so.$(SOVERSION)
SO_REAL := libpgwork.so.$(VERSION)
SHARED := $(B)/$(SO_REAL)
STATIC := $(B)/libpgwork.a

PKG_CONFIG ?= pkg-config
PQ_CFLAGS := $(shell $(PKG_CONFIG) --cflags libpq 2>/dev/null || pg_config --includedir 2>/dev/null | sed 's/^/-I/')
PQ_LIBS := $(shell $(PKG_CONFIG) --libs libpq 2>/dev/null || { pg_config --libdir 2>/dev/null | sed 's/^/-L/'; echo -lpq; })

# The dashboard alone needs libmicrohttpd: without it, it is left out.
MHD_CFLAGS := $(shell $(PKG_CONFIG) --cflags libmicrohttpd 2>/dev/null)
MHD_LIBS := $(shell $(PKG_CONFIG) --libs libmicrohttpd 2>/dev/null)
UI := $(if $(MHD_LIBS),$(B)/pgwork-ui)
UNITS := $(filter-out $(if $(UI),,$(B)/pgwork-ui.service $(B)/pgwork-ui.socket),$(UNITS))

# -- what the compiler is told ---------------------------------------------------------------------

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
  -Wold-style-definition -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wformat=2 -Wvla \
  -Wswitch-enum -Wenum-conversion -Wimplicit-fallthrough -Werror=format-security
# clang's -Wconversion dislikes assert(!"reason"), which we like
WARN_SRC := -Wconversion -Wno-string-conversion
ifneq ($(WERROR),0)
WARN += -Werror
endif

# The OpenSSF list. Compilers differ, so each flag is tried once; -z nodlopen is left out on purpose,
# because bindings load the library with dlopen. The C library warns of a level of fortification that
# it has not, and of any without optimization.
HARDEN ?= $(shell for f in -fstrict-flex-arrays=3 -fstack-clash-protection \
    -fstack-protector-strong -fcf-protection=full -ftrivial-auto-var-init=zero \
    -fno-delete-null-pointer-checks -fno-strict-overflow -fno-strict-aliasing -fexceptions; do \
    $(CC) -Werror $$f -fsyntax-only -x c /dev/null 2>/dev/null && echo $$f; done; \
  for f in 3 2; do f="-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$$f"; \
    $(CC) $(CPPFLAGS) $(CFLAGS) -Werror $$f -include stdio.h -fsyntax-only -x c /dev/null 2>/dev/null && \
    echo $$f && break; done)
HARDEN := $(HARDEN)
HARDEN_LD ?= -Wl,-z,relro,-z,now,-z,noexecstack,--as-needed

# The same bytes wherever the tree stands.
REPRODUCIBLE := '-ffile-prefix-map=$(CURDIR)=.'

# A broken invariant must not abort somebody's program; the tests are built with assertions, as is
# whatever says CPPFLAGS=-UNDEBUG.
COMPILE = $(CC) -DNDEBUG $(CPPFLAGS) -D_POSIX_C_SOURCE=200809L -Iinc $(WARN) $(HARDEN) $(REPRODUCIBLE) \
  $(CFLAGS) -std=c11 -pthread -MMD -MP
LINK = $(CC) $(CFLAGS) -pthread $(HARDEN_LD) $(LDFLAGS)

# -- building --------------------------------------------------------------------------------------

all: lib cli ui examples bench-programs
lib: shared static
shared: $(SHARED)
static: $(STATIC)
cli: $(CLI)
ui: $(UI)
examples: $(EX_SRC:examples/%.c=$(B)/examples/%)
bench-programs: $(BENCH_SRC:bench/%.c=$(B)/bench/%)

# the text of one statement may be longer than the 4095 bytes that C11 promises
WITH_SQL := $(shell grep -l '"sql_data.inc"' $(SRC) /dev/null)
$(WITH_SQL:src/%.c=$(B)/obj/%.o): WARN += -Wno-overlength-strings

$(B)/obj/%.o: src/%.c Makefile | $(G)/stamp
	@mkdir -p $(@D)
	$(COMPILE) $(WARN_SRC) -Isrc -I$(G) $(PQ_CFLAGS) -fPIC -fvisibility=hidden -c $< -o $@

$(B)/obj/examples/%.o: examples/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) $(PQ_CFLAGS) -fPIE -c $< -o $@

$(B)/obj/bench/%.o: bench/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) $(PQ_CFLAGS) -fPIE -c $< -o $@

$(B)/libpgwork.map: src/libpgwork.map.in inc/pgwork.h Makefile
	@mkdir -p $(@D)
	@sed 's|@soversion@|$(SOVERSION)|' $< > $@

$(SHARED): $(OBJ) $(B)/libpgwork.map
	$(LINK) -shared -Wl,-z,defs -Wl,-soname,$(SO_NAME) -Wl,--version-script=$(B)/libpgwork.map \
	  -o $@ $(OBJ) $(PQ_LIBS)
	ln -sf $(SO_REAL) $(B)/$(SO_NAME)
	ln -sf $(SO_NAME) $(B)/libpgwork.so

$(STATIC): $(OBJ)
	rm -f $@
	$(AR) rcsD $@ $(OBJ)

# the tool and the examples take the static library, so they run from the tree
$(B)/pgwork: $(CLI_OBJ) $(STATIC)
	$(LINK) -pie -o $@ $^ $(PQ_LIBS)

# it shares with the tool what is no command
UI_CLI := cli metrics opts out sd signals term text
$(B)/pgwork-ui: $(UI_OBJ) $(UI_CLI:%=$(B)/obj/examples/pgwork/%.o) $(STATIC)
	$(LINK) -pie -o $@ $^ $(MHD_LIBS) $(PQ_LIBS)
$(UI_OBJ): PQ_CFLAGS += -I$(G) $(MHD_CFLAGS)
$(UI_OBJ): $(G)/ui_assets.inc $(G)/ui_help.inc

$(G)/ui_help.inc: examples/pgwork-ui/help.awk doc/troubleshooting.md
	@mkdir -p $(@D)
	@LC_ALL=C awk -f examples/pgwork-ui/help.awk doc/troubleshooting.md > $@

UI_FILES := $(sort $(wildcard examples/pgwork-ui/static/*))
$(G)/ui_assets.inc: examples/pgwork-ui/assets.awk $(UI_FILES)
	@mkdir -p $(@D)
	@LC_ALL=C awk -f examples/pgwork-ui/assets.awk $(UI_FILES) > $@
	@printf '#define UI_VERSION "%s"\n' "$$(cat $(UI_FILES) | cksum | cut -d ' ' -f 1)" > $(@D)/ui_version.inc

$(B)/examples/%: $(B)/obj/examples/%.o $(STATIC)
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(PQ_LIBS)

$(B)/bench/%: $(B)/obj/bench/%.o $(STATIC)
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(PQ_LIBS)

# chaos runs (test/chaos/README.md)
CHAOS_ROLE := role role_producer role_worker role_sql role_group role_rate role_coord hist
CHAOS_DRIVER := driver nemesis hist
CHAOS_PROXY := proxy hist
CHAOS_SINK := sink hist
CHAOS_TRUTH := truth row hist
CHAOS_CHECK_TEST := test_check model check check_job check_live check_group check_rate check_other hist
CHAOS_CHECK := check_main check check_job check_live check_group check_rate check_other hist
CHAOS_SURVIVE := survive check check_job check_live check_group check_rate check_other hist
chaos-programs: $(addprefix $(B)/chaos/chaos-,role driver proxy sink truth check check-test survive) $(B)/chaos/full.so
$(B)/obj/chaos/%.o: test/chaos/%.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -D_DEFAULT_SOURCE $(PQ_CFLAGS) -fPIE -c $< -o $@
chaos_objects = $(patsubst %,$(B)/obj/chaos/%.o,$(1))
$(B)/chaos/chaos-role: $(call chaos_objects,$(CHAOS_ROLE)) $(STATIC)
$(B)/chaos/chaos-driver: $(call chaos_objects,$(CHAOS_DRIVER))
$(B)/chaos/chaos-proxy: $(call chaos_objects,$(CHAOS_PROXY))
$(B)/chaos/chaos-sink: $(call chaos_objects,$(CHAOS_SINK))
$(B)/chaos/chaos-truth: $(call chaos_objects,$(CHAOS_TRUTH))
$(B)/chaos/chaos-check: $(call chaos_objects,$(CHAOS_CHECK))
$(B)/chaos/chaos-check-test: $(call chaos_objects,$(CHAOS_CHECK_TEST))
$(B)/chaos/chaos-survive: $(call chaos_objects,$(CHAOS_SURVIVE))
$(B)/chaos/%:
	@mkdir -p $(@D)
	$(LINK) -pie -o $@ $^ $(PQ_LIBS)
$(B)/chaos/full.so: test/surroundings/full.c Makefile
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -shared -o $@ $<

# -- generated -------------------------------------------------------------------------------------

# Into $(G): the SQL as C strings, and for the integration tests (which use that of B=build) all sources
# and all headers of the library in one file. A file is written only when its text differs.
gen gen-sql:
	@rm -f $(G)/stamp
	@$(MAKE) -s $(G)/stamp

$(G)/stamp: $(SQL) src/sql/sql2c.awk $(wildcard src/* migrations)
	@mkdir -p $(@D)
	@for f in $(SQL); do \
	  test -z "$$(tail -c1 $$f)" || { echo "$$f: no newline at its end"; exit 1; }; done
	@LC_ALL=C awk -f src/sql/sql2c.awk $(SQL) /dev/null > $@.sql_data.inc
	@{ echo '/* The whole library in one unit, for integration tests. */'; \
	  printf '#include "../../%s"\n' $(SRC); } > $@.pgw_all.c
	@{ echo '/* All that is inside the library, for integration tests. */'; \
	  printf '#include "%s"\n' pgwork.h $(SRC_H:src/%=%); } > $@.pgw_all.h
	@for f in sql_data.inc pgw_all.c pgw_all.h; do cmp -s $@.$$f $(@D)/$$f || cp $@.$$f $(@D)/$$f; rm $@.$$f; done
	@touch $@

# so that an edit of the SQL reaches the objects in the same run
$(G)/sql_data.inc $(G)/pgw_all.c $(G)/pgw_all.h: $(G)/stamp
	@:

# the reference, from the headers: man pages of section 3, and HTML
REF = $(B)/reference
FUNCTIONS := $(shell awk '/^PGW_API / && match($$0, /pgw_[a-z0-9_]+\050/) { print substr($$0, RSTART, RLENGTH - 1) }' $(HEADERS))
reference: $(REF)/reference.html
$(REF)/reference.html: doc/man/reference.awk $(HEADERS)
	@rm -rf $(REF) && mkdir -p $(REF)/man3
	@LC_ALL=C awk -v out=$(REF) -v version=$(VERSION) -f doc/man/reference.awk $(HEADERS)

# -- tests -----------------------------------------------------------------------------------------

CEEDLING ?= ceedling
WITH_PG := test/support/with_pg.sh
export LANG ?= C.UTF-8

ceedling:
	@command -v $(CEEDLING) >/dev/null || { echo "the gem ceedling is missing: ./run test installs it" >&2; exit 1; }
	@$(MAKE) -s B=build build/generated/stamp
check: ceedling
	$(CEEDLING) 'test:path[test/unit]'
# A part of them, also of check-valgrind: make check-tsan TESTS='test:test_worker test:test_it_worker'. Without its results, which may be those of
# another server, Ceedling runs also what has not changed.
TESTS ?= test:all
check-it: ceedling
	rm -rf build/ceedling/test/results
	PGW_TEST_STRICT=1 $(WITH_PG) $(CEEDLING) $(TESTS)
# The first race ends a test: later reports may be its effects. Options in TSAN_OPTIONS win.
check-asan check-ubsan check-tsan: check-%: ceedling
	rm -rf build/$*/test/results
	ASAN_OPTIONS="detect_stack_use_after_return=1 $$ASAN_OPTIONS" UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS="halt_on_error=1 $$TSAN_OPTIONS" PGW_TEST_STRICT=1 $(WITH_PG) $(CEEDLING) $(TESTS) --mixin=$*
# Lines and branches of src/ that unit and integration tests reach, and the files below 90 % of lines or 80 % of branches; each line is in
# build/gcov/cover.html. Needs gcovr.
cover: ceedling
	rm -rf build/gcov/gcov/results
	PGW_TEST_STRICT=1 $(WITH_PG) $(CEEDLING) $(TESTS:test:%=gcov:%) --mixin=gcov
	@gcovr -j $$(getconf _NPROCESSORS_ONLN) -r . build/gcov --filter src/ --exclude-unreachable-branches --exclude-throw-branches -s \
	  --csv build/gcov/cover.csv --html-details build/gcov/cover.html
	@awk -F, 'NR > 1 && ($$4 < 0.9 || $$5 > 0 && $$7 < 0.8) \
	  { printf "%s: lines %.0f %%, branches %.0f %%\n", $$1, 100 * $$4, 100 * $$7 }' build/gcov/cover.csv
# The command line tests with sanitized programs. Left out are those that build a tree of their own, and 36_oom: its library must be loaded first.
CLI_TESTS ?= $(filter-out %/18_servers.sh %/20_install.sh %/36_oom.sh,$(wildcard test/cli/*.sh))
check-cli-asan: all
	$(MAKE) B=build/by-asan CC='$(CC) -fsanitize=address,undefined -fno-sanitize-recover=undefined' all
	ASAN_OPTIONS="detect_stack_use_after_return=1 $$ASAN_OPTIONS" PGW_BUILD=$$PWD/build/by-asan PATH="$$PWD/build/by-asan:$$PATH" PGW_TEST_STRICT=1 $(WITH_PG) ./run cli $(CLI_TESTS)
# Unit, integration and command line tests AGAIN times in a row, each with a server of its own, beside two busy loops
AGAIN ?= 20
check-again: all ceedling
	PATH="$$PWD/build:$$PATH" PGW_TEST_STRICT=1 test/support/again.sh $(AGAIN) $(WITH_PG) ./run tests
check-valgrind: ceedling
	$(CEEDLING) test:build_only
	PGW_TEST_STRICT=1 $(WITH_PG) sh -ec 'for t in $(foreach t,$(patsubst test:%,%,$(TESTS:test:all=test:*)),build/ceedling/test/out/$t/*.out); do \
	  valgrind -q --leak-check=full --error-exitcode=99 $$t || exit; done'

# MINUTES of every fault at once, in an order that SEED decides, and what the checker says of the history
MINUTES ?= 2
SEED ?= 1
chaos-check: chaos-programs
	$(B)/chaos/chaos-check-test
chaos: chaos-programs cli
	test/chaos/chaos.sh $$(($(MINUTES) * 60)) $(SEED)
chaos-mutants: chaos-programs cli
	test/chaos/mutants.sh
# runs with one seed after another, until so much is reached; STATE is the account, so that it can be continued
chaos-long: chaos-programs cli
	STATE='$(STATE)' OPERATIONS='$(OPERATIONS)' FIRINGS='$(FIRINGS)' RUNS='$(RUNS)' SECONDS_EACH='$(SECONDS_EACH)' SEED='$(SEED)' PARALLEL='$(PARALLEL)' test/chaos/long.sh

# Servers that are lost under load: failovers to a standby, everything killed at once, a full disk, backups. Half an hour;
# TIMES=2: each only so often.
TIMES ?=
check-surroundings: chaos-programs cli
	test/surroundings/failover.sh sync $(TIMES)
	test/surroundings/failover.sh async $(TIMES)
	test/surroundings/power.sh $(TIMES)
	test/surroundings/full.sh $(TIMES)
	test/surroundings/backup.sh $(TIMES)

# the models in Promela, by spin; larger bounds: test/models/run.sh all
check-models:
	test/models/run.sh

# Hours: what ./run test leaves out, and all bounds, with every tool. A part of the tests under the sanitizers: TESTS=..., as above.
check-full: ALL_TOOLS = 1
check-full: lint lint-analyzer check-abi check-fuzz check-models chaos-check chaos chaos-mutants check-surroundings check-cli-asan check-asan check-ubsan check-tsan check-valgrind check-wire check-oom
# Every message of every verb, and every allocation: the ordinary tests use some.
check-wire: ceedling
	PGW_WIRE_ALL=1 $(MAKE) check-it TESTS=test:test_it_wire
check-oom: ceedling cli
	PGW_OOM_ALL=1 $(MAKE) check-it TESTS=test:test_it_oom
	PGWORK_OOM=own PATH="$(B):$$PATH" $(WITH_PG) sh test/cli/36_oom.sh

# The whole suite on each of these versions, with its own compiler and client tools: in a root of the Debian release that
# has it; for 16, which none has, of Ubuntu 24.04. Needs root, mmdebstrap, for 16 ubuntu-keyring, and 20 minutes each.
VERSIONS ?= 15 16 17 18
MATRIX_15 := bookworm ./run test
MATRIX_16 := noble ./run test
MATRIX_17 := trixie ./run test
MATRIX_18 := forky ./run test
check-matrix:
	$(MAKE) -k $(VERSIONS:%=check-matrix-%)
check-matrix-%:
	test/support/debian.sh $(MATRIX_$*)

# each target over some random bytes, the same everywhere
FUZZ_ROUNDS ?= 20000
check-fuzz: $(STATIC)
	@mkdir -p $(B)/fuzz
	@set -e; for t in $(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/fuzz_*.c)); do \
	  modules=$$(sed -n 's|^#include "\(.*\)\.h"|src/\1.c|p' test/fuzz/$$t.c); \
	  $(CC) -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -Iinc -Isrc -I$(G) $(PQ_CFLAGS) -pthread \
	    -fsanitize=address,undefined -fno-sanitize-recover=all \
	    test/fuzz/$$t.c test/fuzz/standalone.c $$modules $(STATIC) -o $(B)/fuzz/$$t.standalone $(PQ_LIBS); \
	  $(B)/fuzz/$$t.standalone -n $(FUZZ_ROUNDS); done

# each target for so long, by libFuzzer; test/fuzz/standalone.c replays what it finds
FUZZ_SECONDS ?= 60
fuzz: $(G)/stamp
	@mkdir -p $(B)/fuzz
	@set -e; for t in $(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/fuzz_*.c)); do \
	  clang -std=c11 -D_POSIX_C_SOURCE=200809L -g -O1 -Iinc -Isrc -I$(G) $(PQ_CFLAGS) -pthread \
	    -Wno-overlength-strings -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	    test/fuzz/$$t.c $(SRC) -o $(B)/fuzz/$$t $(PQ_LIBS); \
	  mkdir -p $(B)/fuzz/$$t.corpus; \
	  $(B)/fuzz/$$t -max_total_time=$(FUZZ_SECONDS) -max_len=2048 \
	    -artifact_prefix=$(B)/fuzz/$$t. $(B)/fuzz/$$t.corpus; done

# -- checks without running anything ---------------------------------------------------------------

# A tool that is not installed is left out, except where all are asked for: make lint ALL_TOOLS=1
absent = echo "$(1): not here, left out"; test -z '$(ALL_TOOLS)'
lint: lint-layers lint-circles lint-banned lint-budget lint-length lint-rules lint-mutants lint-words check-header check-examples lint-tidy lint-cppcheck lint-shell

lint-layers:
	@awk -f test/lint/layers.awk $(SRC) $(SRC_H)
lint-banned:
	@awk -f test/lint/banned.awk $(SRC) $(SRC_H)
	@! grep -n 'clock_gettime(CLOCK_MONOTONIC' examples/pgwork/*.[ch] # it stands still while the machine sleeps
lint-circles: $(OBJ)
	@sh test/lint/circles.sh $(OBJ)
# how large the engine's SQL and its explanation may be
lint-budget:
	@LC_ALL=C awk -f test/lint/budget.awk migrations/000[1-8]_*.sql $(wildcard doc/engine.md) doc/decisions/*.md
# a long test file says why it is not split
lint-length:
	@LC_ALL=C awk -f test/lint/length.awk $(wildcard test/*/*.[ch])
# phrases that readers had to read twice, in pages, messages and comments of the schema; links of pages that lead nowhere
lint-words:
	@sh test/lint/findings.sh
	@LC_ALL=C.UTF-8 awk -v allow=test/lint/words.allow -f test/lint/words.awk README.md CONTRIBUTING.md SECURITY.md bench/README.md $(wildcard test/*/README.md examples/*/README.md) \
	  $(wildcard doc/*.md doc/howto/*.md doc/man/*.[157]) $(HEADERS) inc/pgwork.hpp $(wildcard migrations/*.sql) $(SRC) $(EX_SRC) $(CLI_SRC) $(UI_SRC)
	@LC_ALL=C awk -f test/lint/links.awk $(wildcard *.md bench/*.md doc/*.md doc/*/*.md test/*/*.md examples/*/*.md)
# one file at a time: clang-tidy 14 takes a second file's va_start for unknown
lint-tidy: $(G)/stamp
	@if command -v clang-tidy >/dev/null; then \
	  for f in $(SRC); do clang-tidy --quiet $$f -- -std=c11 -D_POSIX_C_SOURCE=200809L -Iinc -Isrc \
	    -I$(G) $(PQ_CFLAGS) || exit; done; \
	else $(call absent,clang-tidy); fi
lint-cppcheck: $(G)/stamp
	@if command -v cppcheck >/dev/null; then \
	  cppcheck -q --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingInclude --suppress=normalCheckLevelMaxBranches -Iinc -Isrc -I$(G) src; \
	else $(call absent,cppcheck); fi
# gcc's analyzer (gcc 12); only what it finds in our own code
lint-analyzer: $(G)/stamp
	@found=$$(for f in $(SRC); do $(CC) -std=c11 -D_POSIX_C_SOURCE=200809L -Iinc -Isrc -I$(G) $(PQ_CFLAGS) -pthread \
	  -O1 -fanalyzer -c $$f -o /dev/null 2>&1 | grep -E '(warning|error): '; done); test -z "$$found" || { echo "$$found"; exit 1; }
# every rule and test that the pages name is there
lint-rules:
	sh test/lint/rules.sh
# every mutant of the chaos runs still spoils what it names
lint-mutants:
	@sh test/lint/mutants.sh
# in the command line tests and benchmarks what is not quoted is to be words
lint-shell:
	@if command -v shellcheck >/dev/null; then \
	  shellcheck -x -S warning run .ci/run test/support/*.sh test/lint/*.sh test/chaos/*.sh test/models/*.sh examples/demo/*.sh && \
	  shellcheck -x -P SCRIPTDIR -s sh -S warning -e SC2046 bench/*.sh bench/ask/*.sh test/cli/*.sh test/surroundings/*.sh; \
	else $(call absent,shellcheck); fi

# each public header stands alone, in C and in C++; what may grow in it; kinds of constants
check-header:
	awk -f test/lint/header.awk $(HEADERS)
	@set -e; for h in $(HEADERS); do \
	  $(CC) -std=c11 -Wall -Wextra -Wpedantic -Werror -Iinc -fsyntax-only -x c $$h; \
	  if command -v $(CXX) >/dev/null; then $(CXX) -std=c++11 -Wall -Wextra -Wpedantic -Werror -Iinc -fsyntax-only -x c++ $$h; \
	  else $(call absent,$(CXX)); fi; done
	@if command -v $(CXX) >/dev/null; then \
	  $(CXX) -std=c++17 -Wall -Wextra -Wpedantic -Werror -Iinc -fsyntax-only -x c++ inc/pgwork.hpp; fi
	@sh test/lint/enums.sh $(CC) -std=c11 -Iinc

# every function has a text and an example; examples of header, README and doc/ compile
EXAMPLES_IN = $(HEADERS) README.md $(sort $(wildcard doc/*.md doc/howto/*.md))
check-examples:
	@rm -rf $(B)/manual && mkdir -p $(B)/manual
	@awk -v out=$(B)/manual -f test/lint/examples.awk $(EXAMPLES_IN)
	$(CC) -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Werror -Iinc $(PQ_CFLAGS) -fsyntax-only $(B)/manual/*.c

# what the shared library shows is what the header declares (names in _fn are types)
check-abi: shared
	@$(CC) -E -P -Iinc inc/pgwork.h | grep -o '\bpgw_[a-z0-9_]* *(' | tr -d ' (' | grep -v '_fn$$' | LC_ALL=C sort -u > $(B)/abi.header
	@nm -D --defined-only $(SHARED) | awk '$$2 != "A" { sub(/@.*/, "", $$3); print $$3 }' | LC_ALL=C sort -u > $(B)/abi.library
	@diff $(B)/abi.header $(B)/abi.library | sed -n 's/^</declared, not there:/p; s/^>/there, not declared:/p' > $(B)/abi.diff; \
	  cat $(B)/abi.diff; test ! -s $(B)/abi.diff

FORMATTED = $(HEADERS) $(wildcard src/*/*.[ch] examples/*.[ch] examples/*/*.[ch] bench/*.[ch] test/*/*.[ch])
format:
	clang-format -i $(FORMATTED)
format-check:
	clang-format --dry-run -Werror $(FORMATTED)

# -- installing ------------------------------------------------------------------------------------

CMAKE_FILES = $(B)/pgworkConfig.cmake $(B)/pgworkConfigVersion.cmake

# file:directory:mode, for install and uninstall alike; the header also where README has its link
FILES = inc/pgwork.h:$(includedir):644 inc/pgwork.hpp:$(includedir):644 $(patsubst %,%:$(includedir)/pgwork:644,$(wildcard inc/pgwork/*.h)) \
  $(STATIC):$(libdir):644 $(SHARED):$(libdir):755 $(B)/pgwork.pc:$(pkgconfigdir):644 $(CMAKE_FILES:%=%:$(cmakedir):644) \
  $(CLI:%=%:$(bindir):755) $(UI:%=%:$(bindir):755) \
  $(patsubst %,%:$(datadir)/pgwork/migrations:644,$(wildcard migrations/*.sql)) \
  $(FUNCTIONS:%=$(REF)/man3/%.3:$(mandir)/man3:644) $(REF)/reference.html:$(docdir):644 \
  $(foreach n,1 5 7,$(patsubst %,%:$(mandir)/man$n:644,$(wildcard doc/man/*.$n))) \
  $(patsubst %,%:$(docdir):644,README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE) bench/figures.md:$(docdir)/bench:644 test/chaos/README.md:$(docdir)/test/chaos:644 inc/pgwork.h:$(docdir)/inc:644 inc/pgwork.hpp:$(docdir)/inc:644 $(patsubst %,%:$(docdir)/inc/pgwork:644,$(wildcard inc/pgwork/*.h)) \
  $(foreach d,doc doc/howto doc/decisions doc/plots doc/ui examples,$(patsubst %,%:$(docdir)/$d:644,$(wildcard $d/*.md $d/*.svg $d/*.png $d/*.c $d/*.cpp))) \
  $(UNITS:%=%:$(unitdir):644) \
  $(patsubst %,%:$(bashcompdir):644,$(wildcard examples/pgwork/completion/*.bash)) \
  $(patsubst %,%:$(zshcompdir):644,$(wildcard examples/pgwork/completion/_*))
EACH_FILE = set -e; for f in $(FILES); do m=$${f\#\#*:}; f=$${f%:*}; d="$(DESTDIR)$${f\#*:}"; f=$${f%%:*};

RENEW_LOADER = @test -n "$(DESTDIR)" || PATH=$$PATH:/usr/sbin:/sbin $(LDCONFIG) 2>/dev/null || :

# Others are to read it, whatever the umask; a directory that is there already is left as it is.
install: lib cli ui reference $(B)/pgwork.pc $(CMAKE_FILES) $(UNITS)
	@$(EACH_FILE) test -d "$$d" || $(INSTALL) -d -m 755 "$$d"; echo "install $$d/$${f##*/}"; $(INSTALL) -m $$m $$f "$$d/"; done
	ln -sf $(SO_REAL) "$(DESTDIR)$(libdir)/$(SO_NAME)"
	ln -sf $(SO_NAME) "$(DESTDIR)$(libdir)/libpgwork.so"
	$(RENEW_LOADER)

uninstall:
	@$(EACH_FILE) echo "remove $$d/$${f##*/}"; rm -f "$$d/$${f##*/}"; done
	rm -f "$(DESTDIR)$(libdir)/$(SO_NAME)" "$(DESTDIR)$(libdir)/libpgwork.so"
	@rmdir $(addprefix "$(DESTDIR)$(datadir)/pgwork",/migrations '') \
	  "$(DESTDIR)$(includedir)/pgwork" $(addprefix "$(DESTDIR)$(docdir)",/inc/pgwork /inc /bench /test/chaos /test /examples /doc/plots /doc/ui /doc/howto /doc/decisions /doc '') 2>/dev/null || :
	$(RENEW_LOADER)

# Always made anew: their content depends on the directories given. Removed first, because they are
# root's after `sudo make install`.
FILL_IN = mkdir -p $(@D) && rm -f $@ && sed -e 's|@prefix@|$(PREFIX)|; s|@bindir@|$(bindir)|' \
  -e 's|@includedir@|$(includedir)|; s|@libdir@|$(libdir)|; s|@datadir@|$(datadir)|' \
  -e 's|@version@|$(VERSION)|; s|@soversion@|$(SOVERSION)|' $< > $@
$(B)/pgwork.pc: src/pgwork.pc.in inc/pgwork.h .FORCE
	@$(FILL_IN)
$(B)/%.cmake: src/%.cmake.in inc/pgwork.h .FORCE
	@$(FILL_IN)
$(B)/%.service: examples/systemd/%.service.in .FORCE
	@$(FILL_IN)
$(B)/%.socket: examples/systemd/%.socket.in .FORCE
	@$(FILL_IN)

bench:
	./run bench

# With the generated file, for builds that do without this Makefile.
dist:
	@rm -rf $(B)/dist && mkdir -p $(B)/dist
	git archive --prefix=pgwork-$(VERSION)/ -o $(B)/pgwork-$(VERSION).tar HEAD
	tar -xf $(B)/pgwork-$(VERSION).tar -C $(B)/dist
	$(MAKE) -s -C $(B)/dist/pgwork-$(VERSION) B=. gen
	git archive --prefix=pgwork-$(VERSION)/generated/ --add-file=$(B)/dist/pgwork-$(VERSION)/generated/sql_data.inc \
	  --prefix=pgwork-$(VERSION)/ -o $(B)/pgwork-$(VERSION).tar HEAD
	gzip -9nf $(B)/pgwork-$(VERSION).tar
	@echo $(B)/pgwork-$(VERSION).tar.gz

clean:
	rm -rf $(B)

help:
	@echo 'build:  all lib shared static cli examples gen-sql clean'
	@echo 'test:   check check-it check-asan check-ubsan check-tsan check-valgrind check-models check-abi check-fuzz cover fuzz chaos chaos-mutants chaos-long check-surroundings'
	@echo '        chaos-long: OPERATIONS=10000000 FIRINGS=1000 PARALLEL=1 STATE=FILE'
	@echo '        check-again: AGAIN=$(AGAIN) times in a row; check-full: all but cover, fuzz, chaos-long, check-again, and lint; check-matrix: ./run test on each of VERSIONS="$(VERSIONS)"'
	@echo '        a part of check-it, -asan, -ubsan, -tsan, -valgrind: TESTS="test:test_queue test:test_it_queue"'
	@echo 'lint:   lint (lint-layers lint-circles lint-banned lint-length lint-rules lint-mutants lint-words check-header check-examples lint-tidy lint-cppcheck lint-shell)'
	@echo '        lint-analyzer: gcc -fanalyzer; lint-budget: how large the engine and its explanation may be'
	@echo 'style:  format format-check'
	@echo 'ship:   install uninstall dist reference      (PREFIX=$(PREFIX) DESTDIR=$(DESTDIR))'
	@echo 'all in one, on a bare machine: ./run test'

.PHONY: .FORCE check-again check-surroundings all reference lib shared static cli ui examples bench bench-programs chaos chaos-check chaos-long chaos-mutants chaos-programs gen gen-sql ceedling check check-it check-asan check-ubsan \
  check-tsan check-valgrind check-models check-wire check-oom check-full check-matrix check-fuzz cover fuzz lint lint-layers lint-circles lint-banned lint-budget lint-length lint-rules lint-mutants lint-words lint-analyzer lint-tidy lint-cppcheck \
  lint-shell check-header check-examples check-abi format format-check install uninstall dist clean help
.DELETE_ON_ERROR:
.SECONDARY:

-include $(OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(UI_OBJ:.o=.d) $(wildcard $(B)/obj/examples/*.d $(B)/obj/bench/*.d $(B)/obj/chaos/*.d)
