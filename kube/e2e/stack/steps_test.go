package stack

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/helmfile"
	"lockstep/kube/lease"
)

// hooked is a helmfile with hooks. They are calls of the script note, which writes its arguments into the file log.
type hooked struct {
	stackRig
	dir      string
	releases []release
}

// newHooked writes a helmfile: the hooks of the file, under the name "", and those of releases.
func newHooked(b stackRig, hooks map[string]string, releases ...release) hooked {
	b.T.Helper()
	text := "hooks: [" + hooks[""] + "]\nreleases:\n"
	for _, r := range releases {
		text += fmt.Sprintf("- {name: %s, namespace: %s, chart: %s, installed: %v, needs: [%s], approve: %q, hooks: [%s]}\n", r.Name, b.namespaceOf(r.Name), r.Dir, !r.Removed, strings.Join(r.Needs, ", "), r.Approve, hooks[r.Name])
	}
	dir := rig.MakeDir(b.T, rig.Files{"helmfile.yaml": text, "note": "#!/bin/sh\necho \"$(date +%s%N) $*\" >> log\necho \"noted $*\"\n"})
	if err := os.Chmod(filepath.Join(dir, "note"), 0o700); err != nil {
		b.T.Fatal(err)
	}
	return hooked{b, dir, releases}
}

// noted is a hook that notes its release and event. Its script may have more commands.
func noted(events string, more ...string) string {
	script := strings.Join(append([]string{"./note {{ if .Release }}{{ .Release.Name }} {{ end }}{{ .Event.Name }}"}, more...), "; ")
	return fmt.Sprintf(`{name: note, events: [%s], command: sh, args: ["-c", %q]}`, events, script)
}

// global is noted for the file.
func global(events string) string {
	return fmt.Sprintf(`{name: note, events: [%s], command: ./note, args: ["{{ .HelmfileCommand }} {{ .Event.Name }}"]}`, events)
}

func (h hooked) options(down bool, change func(*kube.StackOptions)) kube.StackOptions {
	h.T.Helper()
	file, err := helmfile.Read(h.T.Context(), helmfile.Options{Path: h.dir})
	if err != nil {
		h.T.Fatal(err)
	}
	o := kube.StackOptions{
		File: file, Down: down, Load: render(h.releases), Hooks: kube.AllowHooks,
		Common: kube.Common{Timeout: time.Minute, ReadinessTimeout: 20 * time.Second, Lease: lease.Options{LockDir: rig.LockDir()}},
	}
	if change != nil {
		change(&o)
	}
	return o
}

func (h hooked) prepare(down bool, change func(*kube.StackOptions)) (*kube.Stack, error) {
	return kube.PrepareStack(h.T.Context(), h.options(down, change), h.connect)
}

// note is what a hook has noted.
type note struct {
	at   time.Time
	text string
}

// notes returns what hooks have noted since the last call.
func (h hooked) notes() (all []note) {
	h.T.Helper()
	path := filepath.Join(h.dir, "log")
	text, _ := os.ReadFile(path)
	_ = os.Remove(path)
	for line := range strings.Lines(string(text)) {
		at, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			h.T.Fatal(err)
		}
		all = append(all, note{time.Unix(0, n), what})
	}
	return all
}

func texts(notes []note) (all []string) {
	for _, n := range notes {
		all = append(all, n.text)
	}
	return all
}

// TestHooksOfAHelmfile (S11a): hooks of the file and of its releases run in their places, by the audit log and the files that they
// write. Only up and down with the consent of the user run them.
func TestHooksOfAHelmfile(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	around := noted("presync, postsync, preuninstall, postuninstall")
	h := newHooked(b, map[string]string{"": global("prepare, cleanup"), "a": around, "b": noted("prepare, preapply, cleanup") + "," + around, "c": around},
		release{Name: "a", Dir: chart(t, "a")}, release{Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}, release{Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}})
	start := time.Now()
	_, err := h.prepare(false, func(o *kube.StackOptions) { o.Hooks = kube.RefuseHooks })
	if err == nil || !strings.Contains(err.Error(), b.id("b")+"/presync/note runs sh -c './note b presync' ("+h.dir+"/helmfile.yaml:4)") ||
		!strings.HasSuffix(err.Error(), "allow them with --allow-hooks, or leave them out with --skip-hooks") {
		t.Errorf("without consent: %v", err)
	}
	planned, err := h.prepare(false, func(o *kube.StackOptions) { o.Hooks, o.Common.PlanOnly = kube.RefuseHooks, true })
	if err != nil {
		t.Fatal(err)
	}
	if n := len(planned.Steps()); n != 11 {
		t.Errorf("the plan has %d hooks: %+v", n, planned.Steps())
	}
	planned.Close()
	if got := h.notes(); len(got) > 0 || len(b.WrittenSince(start)) > 0 {
		t.Errorf("planning has run %v, and written %v", got, b.WrittenSince(start))
	}

	s, err := h.prepare(false, nil)
	state, all := b.run(s, err, nil)
	if state.Exit != 0 {
		t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	got := h.notes()
	want := []string{"apply prepare", "b prepare", "b preapply", "a presync", "a postsync", "b presync", "b postsync", "c presync", "c postsync", "b cleanup", "apply cleanup"}
	if !slices.Equal(texts(got), want) {
		t.Fatalf("up: %q, want %q", texts(got), want)
	}
	for i, name := range []string{"a", "b", "c"} {
		before, after := got[3+2*i], got[4+2*i]
		for _, e := range b.Audit().Writes() {
			if e.Received.After(start) && e.Object.Namespace == b.Namespace && e.Object.Resource == "configmaps" && e.Object.Name == name && (e.Received.Before(before.at) || e.Received.After(after.at)) {
				t.Errorf("%s was written at %s, its hooks ran at %s and %s", name, e.Received, before.at, after.at)
			}
		}
	}
	logged := slices.ContainsFunc(all, func(e event.Event) bool {
		return e.Kind == event.KindLog && e.Group == b.id("b")+"/postsync/note" && slices.Equal(e.Lines, []string{"noted b postsync"})
	})
	if g := state.Find("releases", b.id("b")+"/postsync/note"); !logged || g == nil || g.Status != event.Ready || g.Objects[0].Change != event.Ran || g.Objects[0].Message != "exited with code 0" {
		t.Errorf("logged: %v, group %+v", logged, g)
	}

	s, err = h.prepare(false, nil) // nothing changes, as in helmfile apply
	b.run(s, err, nil)
	if got, want := texts(h.notes()), []string{"apply prepare", "b prepare", "b cleanup", "apply cleanup"}; !slices.Equal(got, want) {
		t.Errorf("up again: %q, want %q", got, want)
	}
	s, err = h.prepare(true, func(o *kube.StackOptions) { o.Hooks = kube.SkipHooks })
	if err != nil || len(s.Steps()) > 0 || !strings.Contains(fmt.Sprint(s.OwnWarnings()), "--skip-hooks leaves out 10 hooks of the helmfile") {
		t.Errorf("--skip-hooks: %v, %v", err, s.OwnWarnings())
	}
	s.Close()
	s, err = h.prepare(true, nil)
	b.run(s, err, nil)
	want = []string{"destroy prepare", "b prepare", "c preuninstall", "c postuninstall", "b preuninstall", "b postuninstall", "a preuninstall", "a postuninstall", "b cleanup", "destroy cleanup"}
	if got := texts(h.notes()); !slices.Equal(got, want) {
		t.Errorf("down: %q, want %q", got, want)
	}
}

// TestContextOfHooks (S8, S11a): a program on this machine has a KUBECONFIG that selects the context of its release, not the one that
// is the current one.
func TestContextOfHooks(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	hook := `{name: note, events: [%s], command: sh, args: ["-c", "cp ${KUBECONFIG%%%%:*} %s; echo ${KUBECONFIG#*:} >files"]}`
	h := newHooked(b, map[string]string{"": fmt.Sprintf(hook, "prepare", "first"), "a": fmt.Sprintf(hook, "presync", "second")}, release{Name: "a", Dir: chart(t, "a")})
	s, err := h.prepare(false, nil)
	if state, _ := b.run(s, err, nil); state.Exit != 0 {
		t.Fatalf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	for _, name := range []string{"first", "second"} {
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		if want := "current-context: " + b.in("a").Client.ContextName() + "\n"; err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), "server:") {
			t.Errorf("%s: %v, %s, want %s", name, err, text, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(h.dir, "files")); err != nil || !filepath.IsAbs(string(text)) {
		t.Errorf("the other files are %q (%v)", text, err)
	}
}

// TestFailedHook (S11a, R26, R33): the hook of the middle one of three releases fails. What needs the release does not start, its
// cause has the exit code and the last line, and cleanup hooks run. The next run runs that hook although the release is unchanged;
// a rollback runs no hooks.
func TestFailedHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	h := newHooked(b, map[string]string{"": global("cleanup"), "a": noted("presync, postsync"), "b": noted("presync") + "," + noted("postsync", "echo no smoke", "test -e mended || exit 3"), "c": noted("presync")},
		release{Name: "a", Dir: chart(t, "a")}, release{Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}}, release{Name: "c", Dir: chart(t, "c"), Needs: []string{"b"}})
	last := (*event.State)(nil)
	up := func(change func(*kube.Common)) *event.State {
		s, err := h.prepare(false, func(o *kube.StackOptions) {
			o.Earlier = func(string) *event.State { return last }
			if change != nil {
				change(&o.Common)
			}
		})
		last, _ = b.run(s, err, nil)
		return last
	}
	failed := b.id("b") + "/postsync/note"
	want := []string{"a presync", "a postsync", "b presync", "b postsync", "apply cleanup"}
	state := up(func(c *kube.Common) { c.RollbackOnFailure = true })
	if got := texts(h.notes()); state.Exit != 1 || !slices.Equal(got, want) || len(b.objects()) > 0 {
		t.Errorf("with a rollback: exit %d, %q, left: %v", state.Exit, got, b.objects())
	}
	state = up(nil)
	g := state.Find("releases", failed)
	if got := texts(h.notes()); state.Exit != 1 || !slices.Equal(got, want) || g.Status != event.Failed || g.Cause != "sh exited with code 3: no smoke" ||
		state.Find("releases", b.id("c")).Status != event.Skipped || state.Operation.Identity == "" {
		t.Errorf("exit %d, %q, %s %q: %s", state.Exit, got, g.Status, g.Cause, phrase.Reason(state))
	}
	if d := g.Objects[0].Details; d == nil || d.ExitCode == nil || *d.ExitCode != 3 {
		t.Errorf("details %+v", d)
	}
	if err := os.WriteFile(filepath.Join(h.dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	state = up(nil)
	if got, want := texts(h.notes()), []string{"b postsync", "c presync", "apply cleanup"}; state.Exit != 0 || !slices.Equal(got, want) {
		t.Errorf("the next run: exit %d, %q, want %q", state.Exit, got, want)
	}
}

// TestHeldHook (S11a, R42, R44): a run pauses before a hook with a breakpoint, and is held by the failure of one, which is retried or
// skipped with a reason.
func TestHeldHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	again := noted("presync", "test -e tried || { touch tried; exit 1; }")
	h := newHooked(b, map[string]string{"a": again + "," + noted("postsync", "exit 2")}, release{Name: "a", Dir: chart(t, "a")}, release{Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}})
	s, err := h.prepare(false, func(o *kube.StackOptions) {
		o.Common.HoldOnFailure, o.Common.BreakOn = true, []string{"a/presync/note"}
	})
	var paused, held []string
	state, _ := b.run(s, err, func(e event.Event) {
		switch {
		case e.Scope != "":
		case e.Kind == event.KindGroup && e.Code == event.Breakpoint:
			paused = append(paused, e.Group)
			if got := h.notes(); len(got) > 0 {
				t.Errorf("before the breakpoint: %v", got)
			}
			s.Command(event.Command{Name: event.Resume})
		case e.Kind == event.KindRun && e.Status == event.Held && strings.Contains(e.Group, "presync"):
			held = append(held, e.Group)
			s.Command(event.Command{Name: event.Retry})
		case e.Kind == event.KindRun && e.Status == event.Held:
			held = append(held, e.Group)
			s.Command(event.Command{Name: event.Accept, Group: e.Group, Reason: "known"})
		}
	})
	pre, post := b.id("a")+"/presync/note", b.id("a")+"/postsync/note"
	if !slices.Equal(paused, []string{pre}) || !slices.Equal(held, []string{pre, post}) || state.Exit != 0 {
		t.Errorf("paused before %v, held by %v, exit %d: %s", paused, held, state.Exit, phrase.Reason(state))
	}
	if got, want := texts(h.notes()), []string{"a presync", "a presync", "a postsync"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if g := state.Find("releases", post); g.Status != event.Ready || g.Objects[0].Message != "skipped after it failed: known" || len(state.Fixed()) != 2 || state.Fixed()[1].Reason != "known" {
		t.Errorf("%s %q, fixed %+v", g.Status, g.Objects[0].Message, state.Fixed())
	}
}

// TestHooksUnderTheLock (R51, S11a): what a hook does before its release is under the lock of the release. Of two runs, only one starts
// it; one that was planned before the other has deployed does not start it either.
func TestHooksUnderTheLock(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	waits := noted("presync", "until test -e go; do sleep 0.05; done")
	h := newHooked(b, map[string]string{"a": waits, "b": noted("presync", "exit 4")},
		release{Name: "a", Dir: chart(t, "a")}, release{Name: "b", Dir: chart(t, "b"), Needs: []string{"a"}})
	prepare := func() *kube.Stack {
		s, err := h.prepare(false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first, second, third := prepare(), prepare(), prepare()
	var once sync.Once
	state, _ := b.run(first, nil, func(e event.Event) {
		if e.Kind == event.KindLog {
			once.Do(func() {
				state, _ := b.run(second, nil, nil)
				if g := state.Find("releases", b.id("a")+"/presync/note"); state.Exit == 0 || !strings.Contains(g.Cause, "locked by another run") {
					t.Errorf("the second run: exit %d: %s", state.Exit, phrase.Reason(state))
				}
				if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if got, want := texts(h.notes()), []string{"a presync", "b presync"}; state.Exit != 1 || !slices.Equal(got, want) {
		t.Errorf("exit %d, %q, want %q", state.Exit, got, want)
	}
	state, _ = b.run(third, nil, nil)
	if g := state.Find("releases", b.id("a")+"/presync/note"); state.Exit == 0 || !strings.Contains(g.Cause, "revision 1 (deployed) was created in the meantime") || len(h.notes()) > 0 {
		t.Errorf("the third run: exit %d: %s", state.Exit, phrase.Reason(state))
	}
	for _, name := range []string{"a", "b"} {
		namespace, _, _ := strings.Cut(b.id(name), "/")
		leases, err := b.Cluster.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(leases.Items) > 0 {
			t.Errorf("left: %v, %v", leases.Items, err)
		}
	}
}

// TestPrepareHooksUnderTheLock (R51, S11a): of two runs of one file that start at the same time, only one starts the hooks before all
// releases: they have the lock of the first release that the run changes.
func TestPrepareHooksUnderTheLock(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	hook := `{name: note, events: [prepare], command: sh, args: ["-c", "./note; until test -e go; do sleep 0.05; done"]}`
	h := newHooked(b, map[string]string{"": hook}, release{Name: "a", Dir: chart(t, "a")}, release{Name: "b", Dir: chart(t, "b")})
	first, err := h.prepare(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.prepare(false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	state, _ := b.run(first, nil, func(e event.Event) {
		if e.Kind == event.KindLog {
			once.Do(func() {
				state, _ := b.run(second, nil, nil)
				if reason := phrase.Reason(state); state.Exit != 2 || !strings.Contains(reason, "locked by another run") {
					t.Errorf("the second run: exit %d: %s", state.Exit, reason)
				}
				if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if notes := h.notes(); state.Exit != 0 || len(notes) != 1 {
		t.Errorf("exit %d, ran %q: %s", state.Exit, texts(notes), phrase.Reason(state))
	}
}

// TestHooksAfterUnderTheLock (R51, S11a): hooks after a release run under its lock, which another run does not get meanwhile, and those
// after all releases under that of the first, also after a rollback. Each lock is given back after the last hook under it.
func TestHooksAfterUnderTheLock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		down, fails bool
		hooks       map[string]string
		want        []string // the hooks that note, with the locks then
	}{
		"each":     {false, false, map[string]string{"a": "postsync", "b": "presync, postsync"}, []string{"a postsync: a", "b presync: b", "b postsync: b"}},
		"file":     {false, false, map[string]string{"": "cleanup", "b": "cleanup"}, []string{"b cleanup: a b", "cleanup: a"}},
		"rollback": {false, true, map[string]string{"": "cleanup", "a": "postsync"}, []string{"a postsync: a", "cleanup: a"}},
		"down":     {true, false, map[string]string{"a": "postuninstall"}, []string{"a postuninstall: a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			hooks := map[string]string{}
			for of, events := range c.hooks {
				note := strings.TrimSpace(of + " {{ .Event.Name }}")
				hooks[of] = fmt.Sprintf(`{name: note, events: [%s], command: sh, args: ["-c", "./note %s; echo waits; until test -e go; do sleep 0.05; done; rm go"]}`, events, note)
			}
			broken := rig.MakeDir(t, rig.Files{"templates/all.yaml": rig.Object("v1/Pod/b", nil, `spec: {containers: [{name: c, image: "x:1"}], nodeSelector: {none: such}}`)})
			releases := []release{{Name: "a", Dir: chart(t, "a")}, {Name: "b", Dir: map[bool]string{false: chart(t, "b"), true: broken}[c.fails], Needs: []string{"a"}}}
			h := newHooked(b, hooks, releases...)
			if c.down {
				b.mustUp(releases...)
			}
			locks := func() (all []string) {
				leases, err := b.Cluster.CoordinationV1().Leases(b.Namespace).List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Error(err)
					return nil
				}
				for _, name := range []string{"a", "b"} {
					if slices.ContainsFunc(leases.Items, func(l coordinationv1.Lease) bool { return l.Name == lease.Name(name) }) {
						all = append(all, name)
					}
				}
				return all
			}
			var got []string
			s, err := h.prepare(c.down, func(o *kube.StackOptions) {
				o.Common.RollbackOnFailure = c.fails
				if c.fails {
					o.Common.ReadinessTimeout = 3 * time.Second
				}
			})
			state, _ := b.run(s, err, func(e event.Event) {
				if e.Kind != event.KindLog || !slices.Contains(e.Lines, "waits") {
					return
				}
				for _, note := range texts(h.notes()) {
					got = append(got, note+": "+strings.Join(locks(), " "))
				}
				if _, err := h.prepare(c.down, nil); err == nil || !strings.Contains(err.Error(), "locked by another run") {
					t.Errorf("another run: %v", err)
				}
				if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
					t.Error(err)
				}
			})
			if failed := state.Exit != 0; failed != c.fails || !slices.Equal(got, c.want) || len(locks()) > 0 {
				t.Errorf("exit %d, ran %q, want %q, left %q: %s", state.Exit, got, c.want, locks(), phrase.Reason(state))
			}
		})
	}
}

// TestKilledAtHooks (S7, S11a): lockstep is killed at the hooks of a release and at the release itself. The same command runs what had
// not succeeded, and a hook with lockstep/rerun again.
func TestKilledAtHooks(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"presync/slow", "", "postsync/slow"} {
		t.Run("at "+at, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			slow := func(event string) string {
				return fmt.Sprintf(`{name: slow, events: [%s], command: sh, args: ["-c", "./note %s; until test -e go-%s; do sleep 0.1; done"]}`, event, event, event)
			}
			rerun := strings.Replace(noted("presync"), "name: note", "name: again, lockstep/rerun: true", 1)
			h := newHooked(b, map[string]string{"": global("prepare"), "a": rerun + "," + noted("presync") + "," + slow("presync") + "," + slow("postsync")}, release{Name: "a", Dir: chart(t, "a")})
			letGo := func(event string) {
				if err := os.WriteFile(filepath.Join(h.dir, "go-"+event), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{"a presync", "presync", "postsync"}
			switch at {
			case "":
				letGo("presync")
				want = []string{"a presync", "postsync"}
			case "postsync/slow":
				letGo("presync")
				want = []string{"postsync"}
			}
			earlier := h.kill(func(e event.Event) bool {
				if at == "" {
					return e.Scope == b.id("a") && e.Kind == event.KindObject && e.Change != ""
				}
				return e.Kind == event.KindLog && e.Group == b.id("a")+"/"+at
			})
			h.notes()
			letGo("presync")
			letGo("postsync")
			s, err := h.prepare(false, func(o *kube.StackOptions) { o.Earlier = func(string) *event.State { return earlier } })
			state, _ := b.run(s, err, nil)
			if got := texts(h.notes()); state.Exit != 0 || !slices.Equal(got, want) {
				t.Errorf("exit %d, ran %q, want %q: %s", state.Exit, got, want, phrase.Reason(state))
			}
		})
	}
}

// kill runs the stack in a child process until an event, kills it and returns the state that it had.
func (h hooked) kill(at func(event.Event) bool) *event.State {
	h.T.Helper()
	child, out := h.startChild(childStack{layout: h.layout, Kubeconfig: rig.Sandbox.Kubeconfig, Locks: rig.LockDir(), Releases: h.releases, File: h.dir})
	state, killed := &event.State{}, false
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 1<<20); !killed && lines.Scan(); {
		var ev event.Event
		if json.Unmarshal(lines.Bytes(), &ev) == nil {
			state.Apply(ev)
			killed = at(ev) && child.Process.Kill() == nil
		}
	}
	_ = child.Wait() // fails, because the process was killed
	if !killed {
		h.T.Fatal("the run ended before it could be killed")
	}
	return state
}

// TestEndedHooks (S11a, R43, S14): a hook that hangs ends by the timeout of its release, or with the run, with its children; its output
// hides the secret values of the stack.
func TestEndedHooks(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	secret := rig.DirOf(t, rig.Object("v1/Secret/a", nil, "stringData: {password: hunter2-x9}"))
	h := newHooked(b, map[string]string{"a": noted("presync", "echo the password is hunter2-x9", "sleep 1000 & echo child $!", "wait")}, release{Name: "a", Dir: secret})
	for _, how := range []string{"timeout", "abort"} {
		child, once := 0, sync.Once{}
		s, err := h.prepare(false, func(o *kube.StackOptions) {
			if how == "timeout" {
				o.File.Releases[0].Timeout = 3 * time.Second
			}
		})
		state, all := b.run(s, err, func(e event.Event) {
			for _, l := range e.Lines {
				if pid, ok := strings.CutPrefix(l, "child "); ok && e.Kind == event.KindLog {
					child, _ = strconv.Atoi(pid)
				}
			}
			if how == "abort" && child > 0 {
				once.Do(func() { s.Command(event.Command{Name: event.Abort}) })
			}
		})
		g := state.Find("releases", b.id("a")+"/presync/note")
		want := map[string]event.Status{"timeout": event.Failed, "abort": event.Aborted}[how]
		if g.Status != want || how == "timeout" && !strings.Contains(g.Cause, "still running; gave up after 3s (timeout of the release)") {
			t.Errorf("%s: %s %q", how, g.Status, g.Cause)
		}
		if text, _ := json.Marshal(all); strings.Contains(string(text), "hunter2-x9") || !strings.Contains(string(text), "the password is ") {
			t.Errorf("%s: the events have the password, or not the output", how)
		}
		for start := time.Now(); child == 0 || isRunning(child); time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > 20*time.Second {
				t.Fatalf("%s: the child %d is still running", how, child)
			}
		}
	}
}

// TestApprovedHook (S11a, R42a): the hooks right before a release wait for its approval, which is given once.
func TestApprovedHook(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	h := newHooked(b, map[string]string{"a": noted("presync, postsync")}, release{Name: "a", Dir: chart(t, "a"), Approve: "a new database"})
	s, err := h.prepare(false, nil)
	var asked []string
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Kind == event.KindGroup && e.Code == event.Unapproved {
			if got := h.notes(); len(got) > 0 {
				t.Errorf("before the approval: %v", got)
			}
			asked = append(asked, e.Group)
			s.Command(event.Command{Name: event.Approve, By: "ann"})
		}
	})
	if got := texts(h.notes()); state.Exit != 0 || !slices.Equal(asked, []string{b.id("a") + "/presync/note"}) || !slices.Equal(got, []string{"a presync", "a postsync"}) {
		t.Errorf("exit %d, asked before %v, ran %v: %s", state.Exit, asked, got, phrase.Reason(state))
	}
}

// TestSkippedHookOfARemoval (S11a, R44): a failed hook before a removal is skipped. The release is removed, and the run knows the
// reason.
func TestSkippedHookOfARemoval(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	h := newHooked(b, map[string]string{"a": noted("preuninstall", "exit 2")}, release{Name: "a", Dir: chart(t, "a")})
	s, err := h.prepare(false, nil)
	b.run(s, err, nil)
	s, err = h.prepare(true, func(o *kube.StackOptions) { o.Common.HoldOnFailure, o.Common.Timeout = true, time.Minute })
	id, held := b.id("a")+"/preuninstall/note", 0
	state, _ := b.run(s, err, func(e event.Event) {
		if e.Scope != "" || e.Kind != event.KindRun || e.Status != event.Held {
			return
		}
		if held++; held == 1 {
			s.Command(event.Command{Name: event.Accept, Group: e.Group, Reason: "known"})
		} else {
			s.Command(event.Command{Name: event.GiveUp})
		}
	})
	g := state.Find("remove", id)
	if state.Exit != 0 || held != 1 || g == nil || g.Objects[0].Status != event.Gone || g.Objects[0].Message != "skipped after it failed: known" || len(b.objects()) > 0 {
		t.Fatalf("exit %d, held %d times, %s, %+v: %s", state.Exit, held, g.Status, g.Objects[0], phrase.Reason(state))
	}
	if f := state.Fixed(); len(f) != 1 || !f[0].Skipped() || f[0].Reason != "known" || !strings.HasSuffix(phrase.Fixed(f[0]), "; skipped: known") {
		t.Errorf("fixed %+v", f)
	}
}
