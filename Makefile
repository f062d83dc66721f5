# Each target installs what it needs when it runs as root and something is
# missing: "sudo make run" and "sudo make test" work on a fresh Debian 12.

PREFIX   ?= /usr/local
DESTDIR  ?=
FUZZTIME ?= 30s
BENCH    ?= .

GO := scripts/with-go.sh

.PHONY: help build run test check generate fuzz bench install uninstall clean deps build-deps FORCE

help:
	@echo "sudo make run        build bin/sbxrun and run the example in a sandbox"
	@echo "sudo make test       run all tests (installs what they need)"
	@echo "make build           bin/sbxrun, static"
	@echo "make check           gofmt, go vet, shellcheck"
	@echo "make generate        the embedded launcher and the system call filters"
	@echo "sudo make fuzz       every fuzz test for FUZZTIME ($(FUZZTIME))"
	@echo "sudo make bench      the benchmarks that match BENCH ($(BENCH))"
	@echo "sudo make install    to PREFIX ($(PREFIX)); make uninstall takes it back"
	@echo "sudo make deps       what all of the above needs"
	@echo "make clean           what these targets made in this folder"

deps:
	@scripts/deps.sh test

build-deps:
	@scripts/deps.sh build

build: build-deps bin/sbxrun

bin/sbxrun: FORCE
	@CGO_ENABLED=0 $(GO) go build -trimpath -o $@ ./cmd/sbxrun

run: build
	@examples/invoices/run.sh bin/sbxrun

test: deps bin/sbxrun
	@$(GO) scripts/test.sh

check: deps
	@$(GO) scripts/check.sh

generate: deps
	@$(GO) go generate ./...

fuzz: deps
	@$(GO) scripts/fuzz.sh $(FUZZTIME)

# First beside peers, in one interleaved run; then each package's own.
bench: deps bin/sbxrun
	@$(GO) go run ./tests/bench
	@$(GO) go test -run '^$$' -bench '$(BENCH)' -benchmem -p=1 ./...

install: build
	install -D -m 755 bin/sbxrun "$(DESTDIR)$(PREFIX)/bin/sbxrun"
	install -D -m 644 docs/man/sbxrun.1 "$(DESTDIR)$(PREFIX)/share/man/man1/sbxrun.1"

uninstall:
	rm -f "$(DESTDIR)$(PREFIX)/bin/sbxrun" "$(DESTDIR)$(PREFIX)/share/man/man1/sbxrun.1"

clean:
	rm -rf bin

FORCE:
