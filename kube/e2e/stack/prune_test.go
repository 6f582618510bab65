package stack

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/cli"
	"k8s.io/client-go/tools/clientcmd"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestPrune removes releases from the file: releases of the stack are uninstalled, the newest first (S9), except those that
// are only deselected.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := newLayoutRig(t)
	a, keep, other := release{Name: "a", Dir: chart(t, "a")}, release{Name: "keep", Dir: chart(t, "keep")}, release{Name: "other", Dir: chart(t, "other")}
	old := release{Name: "old", Dir: chart(t, "old"), Needs: []string{"a"}}
	newer, newest := release{Name: "newer", Dir: chart(t, "newer"), Needs: []string{"a", "old"}}, release{Name: "zero", Dir: chart(t, "zero")}
	named := func(o *kube.StackOptions) { o.Name = "shop-" + b.Namespace }
	up := func(change func(*kube.StackOptions), releases ...release) {
		s, err := b.prepare(false, change, releases...)
		if state, _ := b.run(s, err, nil); state.Exit != 0 {
			t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
		}
	}
	up(named, a, keep, old)
	up(named, a, keep, old, newer)
	up(named, a, keep, old, newer, newest)
	up(func(o *kube.StackOptions) { o.Name = "other-" + b.Namespace }, other)

	start, order := time.Now(), []string{"zero", "newer", "old"} // not the order of names
	prune := func(o *kube.StackOptions) {
		named(o)
		o.Prune = true
		if b.OtherNamespace != "" { // the file has no release there any more
			o.PruneNamespaces = []string{b.OtherNamespace}
		}
		o.File.Others = b.helmfile(keep).Releases // as with -l
	}
	planned, err := b.prepare(false, prune, a)
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range planned.Phases()[1].Groups {
		groups = append(groups, g.Name)
	}
	planned.Close()
	if !slices.Equal(groups, order) {
		t.Errorf("planned to remove %v", groups)
	}
	up(prune, a)
	if got := b.firstWrites(start, "delete"); !slices.Equal(got, order) {
		t.Errorf("removed %v", got)
	}
	want := []string{"a 1 deployed", "keep 1 deployed", "old none", "newer none", "zero none", "other 1 deployed"}
	if got := b.history("a", "keep", "old", "newer", "zero", "other"); !slices.Equal(got, want) {
		t.Errorf("history %v, want %v", got, want)
	}
}

// TestPruneKeeps: prune never removes a release that the file defines, in whatever context, nor one that is not this
// stack's any more. Releases in namespaces that the file does not use stay too, unless the user names the namespace; a
// warning says so (S10).
func TestPruneKeeps(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	second := b.Namespace + "-extra"
	a, x := release{Name: "a", Dir: chart(t, "a")}, release{Name: "x", Dir: chart(t, "x")}
	inContext := release{Name: "x", Dir: x.Dir, Context: "again"}
	up := func(stack string, change func(*kube.StackOptions), releases ...release) []string {
		t.Helper()
		var warnings []string
		s, err := b.prepare(false, func(o *kube.StackOptions) {
			o.Name = stack + "-" + b.Namespace
			if change != nil {
				change(o)
			}
		}, releases...)
		state, _ := b.run(s, err, func(e event.Event) {
			if e.Kind == event.KindWarning && (e.Scope == "" || e.Rule == "S10") {
				warnings = append(warnings, e.Rule+" "+e.Message)
			}
		})
		if state.Exit != 0 {
			t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
		}
		return warnings
	}
	prune := func(o *kube.StackOptions) { o.Prune = true }
	assert := func(when string, want ...string) {
		t.Helper()
		if got := b.history("a", "x"); !slices.Equal(got, want) {
			t.Errorf("%s: history %v, want %v", when, got, want)
		}
	}

	up("shop", nil, a, inContext)
	up("shop", prune, a, inContext)
	assert("two names of one cluster", "a 1 deployed", "x 1 deployed")
	up("shop", prune, release{Name: "a", Dir: a.Dir, Context: "again"}, x)
	assert("the names exchanged", "a 1 deployed", "x 1 deployed")
	up("shop", func(o *kube.StackOptions) {
		prune(o)
		o.File.Others = helmfileOf(b.Namespace, release{Name: "x", Context: "third"}).Releases
	}, a)
	assert("not selected, in a context that is not connected to", "a 1 deployed", "x 1 deployed")

	taken := up("other", nil, x)
	want := fmt.Sprintf("S10 release x belongs to stack shop-%[1]s: this run moves it to stack other-%[1]s; only one of the two files should define it", b.Namespace)
	if !slices.Equal(taken, []string{want}) {
		t.Errorf("moved to another stack with the warnings %q, want %q", taken, want)
	}
	assert("moved to another stack", "a 1 deployed", "x 2 deployed")
	if warnings := up("shop", prune, a); len(warnings) > 0 {
		t.Errorf("warnings about a release of another stack: %v", warnings)
	}
	assert("pruned by its old stack", "a 1 deployed", "x 2 deployed")
	up("shop", nil, x)
	assert("moved back", "a 1 deployed", "x 3 deployed")
	taken = up("", func(o *kube.StackOptions) { o.Name = "" }, x)
	want = fmt.Sprintf("S10 release x belongs to stack shop-%[1]s: this run takes it out of that stack; to keep it there, use: lockstep up --stack shop-%[1]s", b.Namespace)
	if !slices.Equal(taken, []string{want}) {
		t.Errorf("taken out of its stack with the warnings %q, want %q", taken, want)
	}
	up("shop", prune, a)
	assert("deployed by a stack without a name, unchanged", "a 1 deployed", "x 4 deployed")
	up("shop", nil, x)

	elsewhere := func(o *kube.StackOptions) { o.File = helmfileOf(second, a) }
	warnings := up("shop", func(o *kube.StackOptions) { elsewhere(o); prune(o) }, a)
	assert("the same file with another namespace", "a 1 deployed", "x 5 deployed")
	want = fmt.Sprintf("S10 --prune leaves a, x of stack shop-%[1]s in namespace %[1]s, in which the file has no releases; to uninstall them too, add --prune-namespace %[1]s", b.Namespace)
	if !slices.Equal(warnings, []string{want}) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	warnings = up("shop", func(o *kube.StackOptions) { elsewhere(o); prune(o); o.PruneNamespaces = []string{b.Namespace} }, a)
	assert("with --prune-namespace", "a none", "x none")
	want = fmt.Sprintf("S10 --prune uninstalls what stack shop-%[1]s has installed and the file no longer defines: %[1]s/a, %[1]s/x", b.Namespace)
	if !slices.Equal(warnings, []string{want}) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	if got := b.ConfigMaps(second); !slices.Equal(got, []string{"a"}) {
		t.Errorf("ConfigMaps in the other namespace: %v", got)
	}
}

// TestConfirmPrune: where somebody watches, the run asks before it removes the first release (S10).
func TestConfirmPrune(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	a, x, z := release{Name: "a", Dir: chart(t, "a")}, release{Name: "x", Dir: chart(t, "x")}, release{Name: "z", Dir: chart(t, "z")}
	named := func(o *kube.StackOptions) { o.Name = b.Namespace }
	s, err := b.prepare(false, named, a, x, z)
	b.run(s, err, nil)
	for _, answer := range []event.CommandName{event.Abort, event.Resume} {
		s, err := b.prepare(false, func(o *kube.StackOptions) { named(o); o.Prune, o.ConfirmPrune = true, true }, a)
		asked := 0
		state, _ := b.run(s, err, func(e event.Event) {
			if e.Kind == event.KindRun && e.Status == event.Paused && e.Scope == "" {
				asked++
				if got := b.history("x", "z"); !slices.Equal(got, []string{"x 1 deployed", "z 1 deployed"}) {
					t.Errorf("removed before the question: %v", got)
				}
				s.Command(event.Command{Name: answer})
			}
		})
		want, exit := []string{"x 1 deployed", "z 1 deployed"}, event.ExitAborted
		if answer == event.Resume {
			want, exit = []string{"x none", "z none"}, 0
		}
		if got := b.history("x", "z"); asked != 1 || state.Exit != exit || !slices.Equal(got, want) {
			t.Errorf("%s: asked %d times, exit %d, history %v", answer, asked, state.Exit, got)
		}
	}
}

// TestOneReleaseTwice: two entries of the same release are refused before anything is written (S10).
func TestOneReleaseTwice(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	dir := chart(t, "a")
	b.connect = func(name string) (*kube.Client, error) {
		return rig.Connect(t, b.Namespace, func(s *cli.EnvSettings) {
			s.KubeConfig = filepath.Join(t.TempDir(), "config")
			config, err := clientcmd.LoadFromFile(rig.Sandbox.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			config.Contexts["again"] = config.Contexts[config.CurrentContext]
			if err := clientcmd.WriteToFile(*config, s.KubeConfig); err != nil {
				t.Fatal(err)
			}
			s.KubeContext = name
		}), nil
	}
	start := time.Now()
	for name, second := range map[string]release{
		"a second name":           {Name: "a", Dir: dir, Context: "again"},
		"one of them removed":     {Name: "a", Dir: dir, Context: "again", Removed: true},
		"the same context, named": {Name: "a", Dir: dir, Context: "current"},
	} {
		if second.Context == "current" {
			config, err := clientcmd.LoadFromFile(rig.Sandbox.Kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			second.Context = config.CurrentContext
		}
		_, err := b.prepare(false, nil, release{Name: "a", Dir: dir}, second)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("helmfile.yaml:2: release %[2]s/%[1]s/a is already defined at helmfile.yaml:1, as %[1]s/a: both are release a in namespace %[1]s of context", b.Namespace, second.Context)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := b.prepare(false, func(o *kube.StackOptions) { o.File.Releases[1].Namespace = "" }, release{Name: "a", Dir: dir}, release{Name: "a", Dir: dir, Context: "again"})
	if err == nil || !strings.Contains(err.Error(), "both are release a in namespace "+b.Namespace+" of contexts ") {
		t.Errorf("the default namespace of the context: %v", err)
	}
	if got := b.WrittenSince(start); len(got) > 0 {
		t.Errorf("written: %v", got)
	}
}
