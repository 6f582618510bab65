package main

import (
	"os/exec"
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
		{"lockstep/ui/board", "the screen consumes events", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/report", helm, client}},
		{"lockstep/ui/report", "reports consume events", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/board", helm, client}},
		{"lockstep/ui/likehelm", "it prints what others have read", []string{"lockstep/kube", "lockstep/ui/cli", "lockstep/ui/report"}},
		{"lockstep", "Helm's command line brings kubectl's along, and every start waits until that is initialised", []string{helm + "v4/pkg/cmd", "k8s.io/kubectl/pkg/cmd/get"}},
		{"lockstep/kube/...", "kube knows neither screens nor colours", []string{"lockstep/ui", "lockstep/theme", charm}},
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

// isModule reports whether a package comes from a module and not from the
// standard library, whose first path elements have no dot.
func isModule(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") || first == "lockstep"
}
