package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImportRules keeps the architecture: data flows from kube through engine
// to ui, and only ui/cli knows both ends.
func TestImportRules(t *testing.T) {
	const (
		helm   = "helm.sh/helm/"
		client = "k8s.io/client-go"
		charm  = "charm.land/"
	)
	rules := []struct {
		pkg    string
		reason string
		never  []string
	}{
		{"lockstep/engine/...", "the engine needs nothing but the standard library", []string{"."}},
		{"lockstep/theme", "the theme knows colours, not deployments", []string{"lockstep/engine", "lockstep/ui", "lockstep/kube", helm, client}},
		{"lockstep/ui/board/...", "the screen consumes events", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/report", helm, client}},
		{"lockstep/ui/home/...", "home shows what its source reads", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/report", helm, client}},
		{"lockstep/ui/report/...", "reports consume events", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/board", helm, client}},
		{"lockstep/ui/report", "the log knows no report files", []string{"lockstep/ui/report/reportfile"}},
		{"lockstep/ui/report/reportfile", "report files share only the words of package format with the log", []string{"lockstep/theme", charm}},
		{"lockstep/ui/trace", "traces are made from events", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/board", "lockstep/theme", charm, helm, client}},
		{"lockstep/ui/notify", "notices are made from events", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/board", "lockstep/ui/report", "lockstep/theme", charm, helm, client}},
		{"lockstep/ui/post", "requests know no runs", []string{"lockstep", charm, helm, client, "go.opentelemetry.io/otel"}},
		{"lockstep/ui/remote", "both ends are commands, whether they have a screen or not", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/report", "lockstep/ui/board", charm, helm, client}},
		{"lockstep/ui/remote/protocol", "what goes over the socket does not change with a screen", []string{"lockstep/ui", "lockstep/kube", charm, helm, client}},
		{"lockstep/ui/likehelm", "it prints what others have read", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/report"}},
		{"lockstep", "Helm's command line brings kubectl's along, and every start waits until that is initialised", []string{helm + "v4/pkg/cmd", "k8s.io/kubectl/pkg/cmd/get"}},
		{"lockstep/kube/...", "kube knows neither screens nor colours nor traces", []string{"lockstep/ui", "lockstep/theme", charm, "go.opentelemetry.io/otel"}},
	}
	for _, rule := range rules {
		out, err := exec.Command("go", "list", "-f", `{{$p := .ImportPath}}{{range .Deps}}{{$p}} {{.}}{{"\n"}}{{end}}`, rule.pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("go list %s: %v\n%s", rule.pkg, err, out)
		}
		for line := range strings.Lines(string(out)) {
			pkg, dep, _ := strings.Cut(strings.TrimSpace(line), " ")
			for _, never := range rule.never {
				if never == "." && isModule(dep) && !strings.HasPrefix(dep, "lockstep/engine") || never != "." && strings.HasPrefix(dep, never) {
					t.Errorf("%s imports %s: %s", pkg, dep, rule.reason)
				}
			}
		}
	}
}

// commandRooms are the packages below kube that ui/cli imports: charts and helmfiles without a cluster, runs in the
// cluster, and what the commands print of a connection. Operations are used through the facade alone.
var commandRooms = []string{
	"annotate", "charts", "chartvalues", "connect", "diagnose", "documents", "helmfile", "incluster", "journal", "mask", "patches", "planfile", "preview", "readiness", "stack", "status", "throwaway",
}

// TestTheCommandsImportTheFacade keeps requests to the cluster, and Helm's decorators, behind package kube.
func TestTheCommandsImportTheFacade(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "lockstep/ui/cli/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if room, below := strings.CutPrefix(strings.TrimSpace(line), "lockstep/kube/"); below && !slices.Contains(commandRooms, room) {
			t.Errorf("ui/cli imports lockstep/kube/%s: put what it needs of it into the facade kube", room)
		}
	}
}

// isModule reports whether a package comes from a module and not from the
// standard library, whose first path elements have no dot.
func isModule(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") || first == "lockstep"
}

// TestSandboxSharesVersions keeps the modules that lockstep and its sandbox share at one
// version: each of their packages is then compiled once for both, a third of a first
// build.
func TestSandboxSharesVersions(t *testing.T) {
	ours := versions(t, "go.mod")
	for path, version := range versions(t, filepath.Join("kube", "sandbox", "go.mod")) {
		if own, shared := ours[path]; shared && own != version {
			t.Errorf("%s is %s in go.mod and %s in kube/sandbox/go.mod: go get %[1]s@%[2]s in kube/sandbox", path, own, version)
		}
	}
}

// versions are the modules that a go.mod requires.
func versions(t *testing.T, file string) map[string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(f[1], "v") {
			found[f[0]] = f[1]
		}
	}
	return found
}

// boardLayers are the packages of ui/board, the lowest first. Those of a line know
// none of each other.
var boardLayers = [][]string{
	{"canvas"},
	{"graph", "keys", "wires"},
	{"picture"},
	{"screen"},
	{"cards", "header", "inspector", "line", "page"},
	{"columns"},
	{"breakpoints", "dialogs", "edit", "jump", "palette", "replay"},
	{""},
}

// mostFiles is how many source files a package of ui/board may have.
const mostFiles = 20

// TestBoardLayers keeps the arrows inside of ui/board pointing down, so that a mode
// knows no other mode and a region no mode, and its packages small.
func TestBoardLayers(t *testing.T) {
	const board = "lockstep/ui/board"
	layer := map[string]int{}
	for n, packages := range boardLayers {
		for _, name := range packages {
			layer[strings.TrimSuffix(board+"/"+name, "/")] = n
		}
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{len .GoFiles}}{{range .Imports}} {{.}}{{end}}`, board+"/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	up := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		n, known := layer[words[0]]
		if !known {
			t.Errorf("%s has no layer", words[0])
		}
		if files, err := strconv.Atoi(words[1]); err != nil || files > mostFiles {
			t.Errorf("%s has %s source files, at most %d are meant to be in a folder", words[0], words[1], mostFiles)
		}
		for _, imported := range words[2:] {
			if below, inside := layer[imported]; inside && below >= n {
				t.Errorf("%s imports %s, which is not below it", words[0], imported)
				up++
			}
		}
	}
	fmt.Printf("%d packages in ui/board, %d arrows up between them\n", len(layer), up)
}
