package stack

import (
	"context"
	"testing"
	"time"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
	"lockstep/kube/journal"
)

// memory is a journal.Store.
type memory struct{ data []byte }

func (m *memory) Load(context.Context) ([]byte, error)      { return m.data, nil }
func (m *memory) Save(_ context.Context, data []byte) error { m.data = data; return nil }

// TestReleaseOfAnEarlierPodIsTaken: an earlier pod of the Job left b failed, and somebody else upgrades b after the next pod
// has planned. When a fails, which b needs, b is not rolled back, although this pod has not started it (S13, R51b).
func TestReleaseOfAnEarlierPodIsTaken(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	b.Meddles = "upgrades b"
	good := rig.MakeDir(t, rig.Files{"templates/all.yaml": rig.ConfigMap("{{ .Release.Name }}", nil)})
	bad := rig.MakeDir(t, rig.Files{"templates/all.yaml": rig.ConfigMap("{{ .Release.Name }}", nil) + "\n---\n" + rig.Deployment("{{ .Release.Name }}", nil, "1h")})
	stack := func(a, second string) []release {
		return []release{{Name: "a", Dir: a}, {Name: "b", Dir: second, Needs: []string{"a"}}}
	}
	b.mustUp(stack(good, good)...)
	store := &memory{}
	pod := func(rollback bool, releases []release) (*kube.Stack, error) {
		j, err := journal.Open(t.Context(), store, "")
		if err != nil {
			t.Fatal(err)
		}
		return b.prepare(false, func(o *kube.StackOptions) {
			o.Journal, o.Common.Job, o.Common.RollbackOnFailure = j, b.Namespace+"/job", rollback
			o.Common.ReadinessTimeout = 2 * time.Second
		}, releases...)
	}
	s, err := pod(false, stack(good, bad))
	b.run(s, err, nil)
	s, err = pod(true, stack(bad, bad))
	b.mustUp(release{Name: "b", Dir: good})
	state, _ := b.run(s, err, nil)
	if state.Exit != 1 {
		t.Errorf("exit %d: %s", state.Exit, state.Reason())
	}
	if got := b.history("b"); got[0] != "b 3 deployed" {
		t.Errorf("history %v: %s", got, state.Reason())
	}
}
