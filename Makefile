# make          builds bin/lockstep and bin/lockstep-sandbox
# make demo     installs testdata/charts/shop on a throwaway cluster
# make test     runs all tests on a cluster that it starts, and lists the slowest
# make quick    runs the tests that need no cluster
# make chaos    runs hundreds of kills, faults, signals and competing runs, in about
#               15 minutes; ROW=faults SEED=123 repeats one trial
# make compat   runs the end-to-end tests on older Kubernetes: builds each control
#               plane once, in about 5 minutes, and tests it in about 10;
#               KUBERNETES=1.33 selects a version, RUN=TestInstall some tests
# make fuzz     runs every fuzz target for a minute (FUZZTIME=60s)
# make bench    measures lockstep and helm, in about 15 minutes; ROWS="1,000" selects
#               rows; kapp and nelm are measured in two rows if they are in PATH
# make scale    measures more objects, releases and watchers, in about 25 minutes;
#               ROWS="objects" selects rows
# make lint     gofmt, go vet, staticcheck, and the size of the code
# make lint-ci  checks examples/ci with the schemas and linters of the CI systems, which
#               it downloads; needs npm. TEKTON_CRD=FILE adds Tekton's schema, which is
#               config/300-crds/300-task.yaml in Tekton's repository
# make release  builds everything that people install in dist: binaries for all
#               platforms, archives, deb, rpm and apk packages, archives of the Helm
#               plugin, licences, SBOMs, provenance and checksums. DOWNLOAD=URL adds
#               manifests for Homebrew, Scoop and krew, PGP_KEY=FILE signs the Helm
#               plugin, SIGN_KEY=FILE the checksums (CONTRIBUTING.md, Releases);
#               PLUGIN=registry/path/lockstep pushes the Helm plugin
# make image    builds the container image for linux/amd64 and linux/arm64, as an OCI
#               layout in dist/image/oci; IMAGE=registry/name:tag pushes it instead,
#               with the credentials of ~/.docker/config.json
#
# Only Go, git and make are needed. The first build is slow: Helm's SDK takes about
# 5 minutes on 2 cores, Kubernetes about 4.

GO ?= go
# Static binaries without paths of the build machine. Tests use the same flags, so
# that nothing is compiled twice.
STATIC = CGO_ENABLED=0 GOFLAGS="$(GOFLAGS) -trimpath"
BUILD = $(STATIC) $(GO) build -p 2 -ldflags "$(LDFLAGS)"
LDFLAGS = -s -w $(if $(VERSION),-X lockstep/ui/cli.buildVersion=$(VERSION))
# Most tests wait for a cluster, so more run at once than there are cores; with many more, waits of a few seconds end too
# early on a slow machine. make lint runs vet.
# Without symbols, linking a test program takes half the CPU time.
TEST = $(GO) test -vet=off -ldflags "-s -w" -p 3 -parallel 6 -timeout 40m
# More memory, but a fifth less CPU time. A process with more than 3 GiB collects more often.
TESTENV = $(STATIC) GOGC=800 GOMEMLIMIT=3GiB

.PHONY: bench compat scale fuzz all lockstep sandbox demo test test-lockstep test-sandbox test-release quick chaos lint lint-ci release binaries image clean

all: lockstep sandbox

# compile FOLDER,PROGRAM,FLAGS builds a program and shows the progress of a first build.
# Lines that are not package names are compiler messages.
define compile
@mkdir -p bin
@all=0; [ -x bin/$(2) ] || all=$$(cd $(1) && $(GO) list -deps . | wc -l); cd $(1) && \
	{ $(STATIC) $(GO) build -v -p 2 -ldflags "$(3)" -o $(CURDIR)/bin/$(2) . 2>&1; echo "exit $$?"; } | \
	awk -v all=$$all '/^exit [0-9]+$$/ { code = $$2; next } /[ :]/ { print; next } \
		++n % 100 == 0 && all { print "$(2): compiled " n " of at most " all " packages"; fflush() } END { exit code }'
endef

lockstep:
	@[ -x bin/lockstep ] || echo "building lockstep; the first time takes about 5 minutes"
	$(call compile,.,lockstep,$(LDFLAGS))

# The flags and versions are lockstep's, so that shared packages are compiled once.
sandbox:
	@[ -x bin/lockstep-sandbox ] || echo "building Kubernetes from source once, about 4 minutes"
	$(call compile,kube/sandbox,lockstep-sandbox,-s -w)

demo: all
	bin/lockstep install shop testdata/charts/shop --sandbox --no-tui

# The longest packages start first, so that no core is idle at the end.
LONGEST = ./ui/cli ./kube/e2e/stack ./kube/e2e/upgrade ./kube/e2e/recovery ./kube/e2e/outage ./kube/chaos ./kube/e2e/order ./kube/e2e/steer ./ui/board .

test: all
	@cd .release && $(STATIC) $(GO) tool -n cyclonedx-gomod >/dev/null
	@helm="$$($(STATIC) $(GO) tool -n helm)" && TEST_HELM="$$helm" $(MAKE) --no-print-directory -j 3 test-lockstep test-sandbox test-release

test-lockstep:
	CHAOS_PROGRAM=$(CURDIR)/bin/lockstep $(TESTENV) $(GO) run ./kube/throwaway/testcluster/testrun $(TEST) $(LONGEST) ./...

test-sandbox:
	cd kube/sandbox && $(TESTENV) $(TEST) ./...

test-release:
	cd .release && $(TESTENV) $(TEST) ./...

quick:
	$(STATIC) $(GO) test -short -vet=off -p 2 $$($(GO) list ./... | grep -v '/kube/e2e/\|/kube/chaos\|/kube/example/')

# ROWS=expression measures only some rows, and ADD=1 puts them into the results;
# COMPARE=old.json lists the rows that became slower.
BENCH = $(if $(ROWS),-only "$(ROWS)" $(if $(ADD),-add,-out ""),) $(if $(COMPARE),-compare $(COMPARE),) $(if $(ROUNDS),-rounds $(ROUNDS),)

MEASURE = $(STATIC) $(GO) test -c -o bin/bench ./kube/bench && $(STATIC) bin/bench -measure

bench: all
	$(MEASURE) $(BENCH)

scale: all
	$(MEASURE) -scale testdata/bench/scale.md $(if $(ROWS),-only "$(ROWS)",)

chaos: all
	cd kube/chaos && CHAOS=long CHAOS_SEED=$(SEED) $(STATIC) $(GO) test -v -count 1 -timeout 120m -run 'TestChaos/^$(ROW)' .
	[ -n "$(ROW)" ] || CHAOS=long $(TESTENV) $(TEST) -count 1 ./kube/e2e/recovery ./kube/e2e/outage ./kube/e2e/order ./kube/e2e/permissions
	[ -n "$(ROW)" ] || CHAOS=long $(TESTENV) $(TEST) -count 3 ./kube/e2e/stack # each test in each layout of releases

# Only the API server, controllers and scheduler are older; the rest of the sandbox is
# current.
KUBERNETES ?= 1.33 1.35
COMPAT = ./kube/e2e/... ./kube/chaos ./kube/diagnose ./kube/status ./ui/cli
STAMP = k8s.io/component-base/version.git

compat: all
	@mkdir -p bin/compat
	@failed=; for v in $(KUBERNETES); do \
		program=$(CURDIR)/bin/compat/control-plane-v$$v; \
		patch=$$(sed -n 's|^.*k8s.io/kubernetes v||p' kube/compat/v$$v.mod); \
		[ -x $$program ] || echo "building the control plane of Kubernetes $$patch once, about 5 minutes"; \
		(cd kube/compat && $(STATIC) $(GO) build -p 2 -modfile=v$$v.mod -ldflags "-s -w -X $(STAMP)Major=1 -X $(STAMP)Minor=$${v#1.} -X $(STAMP)Version=v$$patch" -o $$program .) || exit; \
		printf '#!/bin/sh\nexec "%s" --control-plane "%s" "$$@"\n' $(CURDIR)/bin/lockstep-sandbox $$program >bin/compat/lockstep-sandbox-v$$v; \
		chmod +x bin/compat/lockstep-sandbox-v$$v; \
		echo "testing on Kubernetes $$patch"; \
		LOCKSTEP_SANDBOX_BIN=$(CURDIR)/bin/compat/lockstep-sandbox-v$$v \
			$(TESTENV) $(TEST) -count 1 $(if $(RUN),-run '$(RUN)') $(COMPAT) || failed="$$failed $$v"; \
	done; [ -z "$$failed" ] || { echo "failed on Kubernetes$$failed"; exit 1; }

# Packages of the sandbox that import all of Kubernetes are not vetted: vet would check
# Kubernetes as well.
SANDBOX_LIGHT = $$($(GO) list -f '{{.ImportPath}} {{.Deps}}' ./... | grep -v 'k8s.io/kubernetes/cmd/kube-' | cut -d' ' -f1)

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(STATIC) $(GO) vet -p 2 ./...
	cd .release && $(STATIC) $(GO) vet -p 2 ./...
	cd kube/sandbox && $(STATIC) $(GO) vet -p 2 $(SANDBOX_LIGHT)
	$(STATIC) $(GO) tool staticcheck ./...
	@$(STATIC) $(GO) test -count 1 -run '^Test(Counts|BoardLayers|NoProgramInGit)$$'

lint-ci:
	cd .release && LINT_CI=1 TEKTON_CRD="$(TEKTON_CRD)" $(STATIC) $(GO) test -count 1 -v -run 'TestWorkflow|TestArgoWorkflow|TestTektonTask|TestGitLabComponent' .

# The same commit gives the same files, byte for byte, on every machine: version and
# time are those of the commit. VERSION=v1.2.3 sets the version.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
DIST ?= $(CURDIR)/dist
COMMITTED = TZ=UTC git show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD

# The binary of a platform: lockstep_OS_ARCH.
binary = $(DIST)/lockstep_$(subst /,_,$(1))$(if $(filter windows/%,$(1)),.exe)

release: binaries
	mkdir -p $(DIST)/generated
	set -e; host=$(call binary,$$($(GO) env GOHOSTOS)/$$($(GO) env GOHOSTARCH)); \
		[ -x $$host ] || { host=$(DIST)/generated/lockstep; $(BUILD) -o $$host .; }; \
		for file in bash:lockstep.bash zsh:_lockstep fish:lockstep.fish powershell:lockstep.ps1; do \
			$$host completion $${file%:*} > $(DIST)/generated/$${file#*:}; \
		done; $$host man > $(DIST)/generated/lockstep.1
	cd .release && $(STATIC) $(GO) run ./pack -source $(CURDIR) -dist $(DIST) -time $$($(COMMITTED)) -version "$(VERSION)" \
		-download "$(DOWNLOAD)" -pgp-key "$(PGP_KEY)" -plugin-repository "$(PLUGIN)" -artifact-hub "$(ARTIFACT_HUB)" $(foreach p,$(PLATFORMS),$(call binary,$(p)))
	cd .release && $(STATIC) $(GO) run ./sign -dist $(DIST) -time $$($(COMMITTED)) -version "$(VERSION)" -commit $$(git rev-parse HEAD) -key "$(SIGN_KEY)"

# Go records the commit only if .git is a folder.
binaries:
	@[ -d .git ] || { echo "a release needs a clone, because Go does not record the commit in a linked worktree; run: git clone . FOLDER && cd FOLDER"; exit 1; }
	rm -rf $(DIST)
	mkdir -p $(DIST)
	set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/}; \
		file=$(DIST)/lockstep_$${os}_$$arch; [ $$os != windows ] || file=$$file.exe; \
		echo "building $$(basename $$file)"; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -buildvcs=auto -o $$file .; \
		version=$(VERSION); [ -n "$$version" ] || version=$$($(GO) version -m $$file | awk '$$1 == "mod" { print $$3 }'); \
		(cd .release && $(STATIC) $(GO) tool cyclonedx-gomod bin -json -licenses -std -noserial -version $$version -output $$file.cdx.json $$file 2>$(DIST)/log) || { cat $(DIST)/log; exit 1; }; \
	done
	cd .release && $(STATIC) $(GO) run . -source $(CURDIR) -time $$($(COMMITTED)) -licenses $(DIST)/LICENSES.txt $(DIST)/*.cdx.json
	rm -f $(DIST)/log

# Its binaries are those of a release, and the same commit gives the same digest.
image:
	$(MAKE) binaries PLATFORMS="linux/amd64 linux/arm64" DIST=$(DIST)/image
	cd .release && $(STATIC) $(GO) run ./image -time $$($(COMMITTED)) -licenses $(DIST)/image/LICENSES.txt $(if $(VERSION),-version $(VERSION)) \
		$(if $(IMAGE),-push $(IMAGE),-layout $(DIST)/image/oci) $(DIST)/image/lockstep_linux_amd64 $(DIST)/image/lockstep_linux_arm64

# Runs every fuzz target for FUZZTIME. Their seeds are part of make test.
FUZZTIME ?= 60s
fuzz:
	@set -e; for file in $$(git grep -l 'func Fuzz' -- '*_test.go'); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z]*\)(.*/\1/p' $$file); do \
			echo "$$file $$target"; $(STATIC) $(GO) test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME); \
		done; done

clean:
	rm -rf bin dist
