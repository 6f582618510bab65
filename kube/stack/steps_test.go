package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/kube/helmfile"
	"lockstep/kube/planfile"
)

// TestOrderOfHooks (S11a): hooks are groups before and after their releases, in the order of the file; what needs a release waits for
// the hooks after it.
func TestOrderOfHooks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "helmfile.yaml")
	const text = `hooks: [{name: all, events: [prepare, cleanup], command: echo}]
releases:
- {name: b, chart: repo/b, needs: [a], hooks: [{name: p, events: [presync, cleanup], command: "{{ .Event.Name }}.sh", args: [one two]}]}
- {name: a, chart: repo/a, hooks: [{name: p, events: [presync, postsync], command: p}, {name: p, events: [presync, preuninstall], command: q}]}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := helmfile.Read(t.Context(), helmfile.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	groups, err := Order(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range groups {
		line := fmt.Sprintf("%d %s %v", g.Layer, g.ID, g.After)
		if g.Step != nil {
			line += " " + g.Step.Line()
		}
		got = append(got, line)
	}
	want := []string{
		"0 prepare/all [] echo", "1 a/presync/p [prepare/all] p", "2 a/presync/p-2 [a/presync/p] q", "3 a [a/presync/p-2]", "4 a/postsync/p [a] p",
		"5 b/presync/p [a/postsync/p] presync.sh 'one two'", "6 b [b/presync/p]", "7 b/cleanup/p [b] cleanup.sh 'one two'", "8 cleanup/all [b/cleanup/p] echo",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestMovedHooks (S11a, R55): the hooks of a run are those of the plan that it follows.
func TestMovedHooks(t *testing.T) {
	hook := func(id string, args ...string) planfile.Hook {
		return planfile.Hook{PlannedStep: plan.PlannedStep{ID: id, Step: plan.Step{Command: "run", Args: args}}}
	}
	with := func(container, noReturn string) planfile.Hook {
		h := hook("job")
		h.Image, h.Container, h.NoReturn = "tool:1", container, noReturn
		return h
	}
	var got []string
	for _, m := range movedHooks([]planfile.Hook{hook("same", "1"), hook("other", "1"), hook("gone"), with("a", "")}, []planfile.Hook{hook("same", "1"), hook("other", "2"), hook("new"), with("b", "x")}) {
		got = append(got, phrase.Moved(m))
	}
	want := []string{"hook gone is approved, but does not run",
		"hook job runs run in image tool:1 (no return: x) with other variables, Secrets, service account or annotations, approved was run in image tool:1", "hook new is not in the approved plan", "hook other runs run 2, approved was run 1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	pod := (&helmfile.Image{Env: map[string]string{"MODE": "full", "LEVEL": "1"}, Secrets: []string{"db"}, ServiceAccount: "runner"}).Pod()
	if got, want := pod.String(), "variables LEVEL, MODE; Secret db; service account runner"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	digests := map[string]bool{}
	for _, i := range []helmfile.Image{{}, {Name: "other:2"}, {Env: map[string]string{"MODE": "full"}}, {Env: map[string]string{"MODE": "wipe"}},
		{Secrets: []string{"s1"}}, {ServiceAccount: "admin"}, {Annotations: map[string]string{"a": "b"}}} {
		digests[containerDigest([]byte("salt"), i)] = true
	}
	if len(digests) != 6 {
		t.Errorf("%d digests of six containers", len(digests))
	}
}
