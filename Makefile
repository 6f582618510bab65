# make        builds bin/lockstep and bin/lockstep-sandbox
# make demo   installs testdata/charts/shop in order on a throw-away cluster
# make test   runs all tests; the cluster they need comes with them
# make lint   gofmt, go vet, staticcheck
#
# Go, git and make are all that is needed. What is slow the first time is
# compiling: Helm's SDK takes about 3 minutes on 2 cores, Kubernetes about 5.

GO ?= go
BUILD = $(GO) build -p 2
# Most tests wait for a cluster, so more of them than cores run at once.
TEST = $(GO) test -p 2 -parallel 6 -timeout 20m

.PHONY: all lockstep sandbox demo test lint clean

all: lockstep sandbox

lockstep:
	@[ -x bin/lockstep ] || echo "building lockstep; the first time takes about 3 minutes"
	$(BUILD) -o bin/lockstep .

sandbox:
	@[ -x bin/lockstep-sandbox ] || echo "building Kubernetes from source once, about 5 minutes"
	cd kube/sandbox && $(BUILD) -ldflags "-s -w" -o ../../bin/lockstep-sandbox .

demo: all
	bin/lockstep install shop testdata/charts/shop --sandbox --no-tui

test: all
	$(TEST) ./...
	cd kube/sandbox && $(TEST) -vet=off ./...

# Of the sandbox only what does not import all of Kubernetes is vetted: vet
# would have to look at that, too.
SANDBOX_LIGHT = $$($(GO) list -f '{{.ImportPath}} {{.Deps}}' ./... | grep -v 'k8s.io/kubernetes/' | cut -d' ' -f1)

lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet -p 2 ./...
	cd kube/sandbox && $(GO) vet -p 2 $(SANDBOX_LIGHT)
	$(GO) tool staticcheck ./...

clean:
	rm -rf bin
