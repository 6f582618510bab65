package stack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// memory is a journal.Store. If it forgets failures, the next pod finds what one finds whose predecessor was killed before it
// failed.
type memory struct {
	data    []byte
	forgets bool
	refuses func(text string) error // may be nil
}

func (m *memory) Load(context.Context) ([]byte, error) { return m.data, nil }
func (m *memory) Save(_ context.Context, data []byte) error {
	text := unpack(data)
	if m.refuses != nil {
		if err := m.refuses(text); err != nil {
			return err
		}
	}
	if !m.forgets || !strings.Contains(text, `"failure":`) {
		m.data = data
	}
	return nil
}

// unpack returns the text of a journal.
func unpack(data []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(z)
	return string(text)
}

// instant is a write of the journal after which a process kills itself.
type instant string

const (
	releaseFails     instant = "a release fails"
	failureDiagnosed instant = "the failure is diagnosed"
	stackFails       instant = "the stack fails"
)

// fileStore is a journal.Store that outlives its process.
type fileStore struct {
	path   string
	killAt instant
	writes int // with a failure
}

func (s *fileStore) Load(context.Context) ([]byte, error) {
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (s *fileStore) Save(_ context.Context, data []byte) error {
	if err := os.WriteFile(s.path, data, 0o600); err != nil {
		return err
	}
	text := unpack(data)
	if strings.Contains(text, `"failure":`) {
		s.writes++
	}
	stack := s.writes > 0 && strings.Contains(text, `"rollback":`) // the one that has rolled back is the release
	if s.killAt == releaseFails && s.writes == 1 || s.killAt == failureDiagnosed && s.writes == 2 || s.killAt == stackFails && stack {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
	return nil
}

// TestKilledAfterTheFailure (S13, R33): the pod is killed after a release has failed and before the start of the rollback is
// kept, and after the release has rolled itself back and before that of the stack is kept. The next pod, whose b would succeed,
// rolls all back.
func TestKilledAfterTheFailure(t *testing.T) {
	t.Parallel()
	for _, at := range []instant{releaseFails, failureDiagnosed, stackFails} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
			fails := rig.DirOf(t, rig.Job("{{ .Release.Name }}", map[string]string{"helm.sh/hook": "post-upgrade"}, `10ms, sandbox/exit-code: "3"`, "  backoffLimit: 0"))
			stack := func(v, second string) []release {
				return []release{{Name: "a", Dir: good, Values: map[string]any{"v": v}}, {Name: "b", Dir: second, Needs: []string{"a"}, Values: map[string]any{"v": v}}}
			}
			b.mustUp(stack("1", good)...)
			e := childStack{
				layout: b.layout, Kubeconfig: rig.Sandbox.Kubeconfig, Locks: rig.LockDir(), RollbackOnFailure: true,
				Journal: filepath.Join(t.TempDir(), "journal"), KillAt: at, Releases: stack("2", fails),
			}
			child, out := b.startChild(e)
			_, _ = io.Copy(io.Discard, out)
			if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
				t.Fatalf("it was not killed: %v", err)
			}
			e.KillAt, e.Releases = "", stack("2", good)
			child, out = b.startChild(e)
			text, _ := io.ReadAll(out)
			_ = child.Wait()
			text = text[bytes.LastIndex(bytes.TrimSpace(text), []byte("\n"))+1:]
			if !strings.Contains(string(text), `"exit":1`) || !strings.Contains(string(text), "post-upgrade:Job/b") {
				t.Errorf("the next pod:\n%s", text)
			}
			if got := b.history("a", "b"); got[0] != "a 3 deployed" || got[1] != "b 3 deployed" {
				t.Errorf("history %v\n%s", got, text)
			}
		})
	}
}

// pods returns a function that prepares the stack of the next pod of one Job.
func (b stackRig) pods(store *memory) func(down, rollback bool, releases ...release) (*kube.Stack, error) {
	return func(down, rollback bool, releases ...release) (*kube.Stack, error) {
		j := rig.OpenJournal(b.T, store)
		return b.prepare(down, func(o *kube.StackOptions) {
			o.Journal, o.Common.Job, o.Common.RollbackOnFailure = j, b.Namespace+"/job", rollback
			o.Common.Timeout, o.Common.ReadinessTimeout = 0, 2*time.Second // without --timeout
		}, releases...)
	}
}

// TestNextPodSaysWhatTheRunDid (S13): a pod deploys a and is killed before b is ready. The next pod finds a unchanged and completes the
// run; what it counts is what the run has done.
func TestNextPodSaysWhatTheRunDid(t *testing.T) {
	t.Parallel()
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil, "v: {{ .Values.v | quote }}"))
	bad := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil), rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	stack := func(v, second string) []release {
		values := map[string]any{"v": v}
		return []release{{Name: "a", Dir: good, Values: values}, {Name: "b", Dir: second, Needs: []string{"a"}, Values: values}}
	}
	for want, revision := range map[string]string{"2 installed": "revision 1", "2 upgraded": "revision 2"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			if want == "2 upgraded" {
				b.mustUp(stack("1", good)...)
			}
			pod := b.pods(&memory{forgets: true})
			s, err := pod(false, false, stack("2", bad)...)
			if state, _ := b.run(s, err, nil); state.Exit != 1 {
				t.Errorf("the first pod: exit %d", state.Exit)
			}
			s, err = pod(false, false, stack("2", good)...)
			state, _ := b.run(s, err, nil)
			if got := state.Changes().Releases(); state.Exit != 0 || got != want {
				t.Errorf("the next pod: exit %d, %q, want %q: %s", state.Exit, got, want, phrase.Reason(state))
			}
			for g := range state.GroupStates() {
				if got := g.Objects[0].Message; strings.HasSuffix(g.ID, "/a") && got != revision {
					t.Errorf("the next pod says %q of %s, want %q", got, g.ID, revision)
				}
			}
		})
	}
}

// TestFailureThatCannotBeKept (S13, R33): a failure that cannot be kept starts no rollback. A next pod would continue the run.
// Once it can be kept, it rolls back.
func TestFailureThatCannotBeKept(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil), rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	b.mustUp(release{Name: "a", Dir: good})
	store, denied, tries := &memory{}, true, 0
	store.refuses = func(text string) error {
		switch tries++; {
		case !strings.Contains(text, `"failure":`):
			return nil
		case denied:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "journal", errors.New("the Role has changed"))
		case tries%3 != 0:
			return errors.New("connection refused")
		}
		return nil
	}
	pod := b.pods(store)
	for _, want := range []string{"a 2 failed", "a 4 deployed"} {
		s, err := pod(false, true, release{Name: "a", Dir: bad})
		state, _ := b.run(s, err, nil)
		if got := b.history("a"); state.Exit != 1 || got[0] != want || denied != strings.Contains(phrase.Reason(state), "not rolled back, because the failure could not be kept") {
			t.Errorf("exit %d, history %v, want %s: %s", state.Exit, got, want, phrase.Reason(state))
		}
		denied = false
	}
}

// TestTakenByAnEarlierPod (S13, R31a): a pod takes over an object with --take-ownership and is killed. The next pod fails and
// rolls back; it keeps the object, which existed before the run.
func TestTakenByAnEarlierPod(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.TakesOver = []string{"configmaps/theirs"}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	if _, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Create(t.Context(), theirs, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bad := rig.ChartOf(t, rig.ConfigMap("theirs", rig.Group("one")), rig.Deployment("app", rig.Group("two", "one"), "1h"))
	store := &memory{forgets: true}
	for _, rollback := range []bool{false, true} {
		j := rig.OpenJournal(t, store)
		op, err := b.Install("plain", rig.UseChart(bad, func(i *kube.Deploy) {
			i.TakeOwnership, i.RollbackOnFailure = true, rollback
			i.Journal, i.Job, i.ReadinessTimeout = j.Entry(""), b.Namespace+"/job", 2*time.Second
		}))
		if err != nil {
			t.Fatal(err)
		}
		if out := b.Run(op, nil); out.Err == nil {
			t.Error("the installation did not fail")
		} else if kept := op.Taken().Kept(); rollback && kept != "kept what existed before this release took it over: ConfigMap/theirs (of no release)" {
			t.Errorf("the rollback %q", kept)
		}
	}
	if !slices.Contains(b.ConfigMaps(b.Namespace), "theirs") {
		t.Error("the rollback deleted an object that existed before the run")
	}
}

// TestDeployedByAnEarlierPod is TestTakenByAnEarlierPod for a stack whose first pod deployed the release with the object.
func TestDeployedByAnEarlierPod(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	before := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "a", Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations: map[string]string{"meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": b.Namespace},
	}}
	if _, err := b.Cluster.CoreV1().ConfigMaps(b.Namespace).Create(t.Context(), before, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := b.pods(&memory{forgets: true})
	for _, rollback := range []bool{false, true} {
		s, err := pod(false, rollback, release{Name: "a", Dir: good}, release{Name: "b", Dir: bad, Needs: []string{"a"}})
		state, _ := b.run(s, err, nil)
		if got := b.history("a"); (got[0] == "a none") != rollback || strings.Contains(state.Outcome, "existed before this release took it over: ConfigMap/a") != rollback {
			t.Errorf("history %v, outcome %q", got, state.Outcome)
		}
	}
	if !slices.Contains(b.ConfigMaps(b.Namespace), "a") {
		t.Error("the rollback deleted an object that existed before the run")
	}
}

// TestUninstalledByAnEarlierPod (S13): a pod that replaces one that has uninstalled all releases, because the run removes them
// or as the rollback of their installation, counts them in the outcome.
func TestUninstalledByAnEarlierPod(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	for _, test := range []struct {
		down bool
		want string
	}{{false, "rolled back; 2 releases uninstalled"}, {true, "2 uninstalled"}} {
		releases := []release{{Name: "a", Dir: good}, {Name: "b", Dir: bad, Needs: []string{"a"}}}
		if test.down {
			releases[1].Dir = good
			b.mustUp(releases...)
		}
		pod := b.pods(&memory{})
		var outcomes [2]string
		for i := range outcomes {
			s, err := pod(test.down, true, releases...)
			state, _ := b.run(s, err, nil)
			counts := map[event.Result]int{}
			for _, r := range state.Results {
				counts[r.Result]++
			}
			outcomes[i] = fmt.Sprint(state.Outcome, counts)
		}
		if outcomes[1] != outcomes[0] || !test.down && !strings.Contains(outcomes[0], test.want) {
			t.Errorf("down %t: %q, and the next pod %q, want %s", test.down, outcomes[0], outcomes[1], test.want)
		}
	}
}

// TestInstalledAgainForTheNextPod: the first pod of a Job uninstalls two releases. Before the next one starts, somebody installs one
// of them again: its revision has the number of the one that was uninstalled, and is left alone (S13, R51b).
func TestInstalledAgainForTheNextPod(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	releases := []release{{Name: "a", Dir: good}, {Name: "b", Dir: good}}
	b.mustUp(releases...)
	pod := b.pods(&memory{})
	s, err := pod(true, false, releases...)
	b.run(s, err, nil)
	b.mustUp(releases[0])
	if _, err := pod(true, false, releases...); err == nil || !strings.Contains(err.Error(), "which somebody else created after this run began") {
		t.Errorf("the next pod goes on: %v", err)
	}
	if got := b.history("a"); len(got) != 1 || got[0] != "a 1 deployed" {
		t.Errorf("history %v", got)
	}
}

// TestReleaseOfAnEarlierPodIsTaken: an earlier pod of the Job left b failed, and somebody else upgrades b after the next pod
// has planned. When a fails, which b needs, b is not rolled back, although this pod has not started it (S13, R51b).
func TestReleaseOfAnEarlierPodIsTaken(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.Meddles = "upgrades b"
	good := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil))
	bad := rig.DirOf(t, rig.ConfigMap("{{ .Release.Name }}", nil), rig.Deployment("{{ .Release.Name }}", nil, "1h"))
	stack := func(a, second string) []release {
		return []release{{Name: "a", Dir: a}, {Name: "b", Dir: second, Needs: []string{"a"}}}
	}
	b.mustUp(stack(good, good)...)
	store := &memory{forgets: true}
	pod := b.pods(store)
	s, err := pod(false, false, stack(good, bad)...)
	b.run(s, err, nil)
	s, err = pod(false, true, stack(bad, bad)...)
	b.mustUp(release{Name: "b", Dir: good})
	state, _ := b.run(s, err, nil)
	if state.Exit != 1 {
		t.Errorf("exit %d: %s", state.Exit, phrase.Reason(state))
	}
	if got := b.history("b"); got[0] != "b 3 deployed" {
		t.Errorf("history %v: %s", got, phrase.Reason(state))
	}
}
