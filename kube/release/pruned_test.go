package release

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/release"
	rcommon "helm.sh/helm/v4/pkg/release/common"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// killedDriver is a storage whose next revision is never created: the run is killed before.
type killedDriver struct {
	driver.Driver
	killed bool
}

func (d *killedDriver) Create(key string, r release.Releaser) error {
	if d.killed {
		return errors.New("killed")
	}
	return d.Driver.Create(key, r)
}

// TestPrunedRevisionsAreKnown: whatever deletes the records of revisions that were never deployed, and whenever the run is killed,
// the storage has the names of their objects until lockstep has deployed a revision (R32a).
func TestPrunedRevisionsAreKnown(t *testing.T) {
	inner := &killedDriver{Driver: driver.NewMemory()}
	helm := storage.Init(inner)
	run := func(version, limit int, status rcommon.Status) error {
		d := NewDriver(inner, DriverOptions{Span: func(*rel1.Release) Span { return Span{} }})
		s := storage.Init(d)
		s.MaxHistory = limit
		rel := &rel1.Release{Name: "shop", Namespace: "default", Version: version, Info: &rel1.Info{Status: rcommon.StatusPendingUpgrade}, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "c"}},
			Manifest: fmt.Sprintf("---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: v%d}\n", version)}
		if err := s.Create(rel); err != nil {
			return err
		}
		rel.Info.Status = status
		return s.Update(rel)
	}
	mayBeLeft := func() (out []int) {
		revs, _, err := Read(storage.Init(inner), "shop")
		if err != nil {
			t.Fatal(err)
		}
		for _, rel := range slices.Concat(revs.neverDeployed(), revs.Pruned()) {
			out = append(out, rel.Version)
		}
		slices.Sort(out)
		return out
	}
	for _, step := range []struct {
		name string
		do   func() error
		fail bool
		want []int
	}{
		{"the first is deployed", func() error { return run(1, 2, rcommon.StatusDeployed) }, false, nil},
		{"a failure", func() error { return run(2, 10, rcommon.StatusFailed) }, false, []int{2}},
		{"a second one", func() error { return run(3, 10, rcommon.StatusFailed) }, false, []int{2, 3}},
		{"Helm prunes the first failure", func() error { _, err := helm.Delete("shop", 2); return err }, false, []int{2, 3}},
		{"a kill after a run has pruned the second one", func() error {
			inner.killed = true
			defer func() { inner.killed = false }()
			return run(4, 1, rcommon.StatusFailed)
		}, true, []int{2, 3}},
		{"a third one, which prunes the second one", func() error { return run(4, 1, rcommon.StatusFailed) }, false, []int{2, 3, 4}},
		{"a fourth one, which prunes the third one", func() error { return run(5, 1, rcommon.StatusFailed) }, false, []int{2, 3, 4, 5}},
		{"success", func() error { return run(6, 1, rcommon.StatusDeployed) }, false, nil},
	} {
		if err := step.do(); (err != nil) != step.fail {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := mayBeLeft(); !slices.Equal(got, step.want) {
			t.Errorf("%s: revisions %v may have left something, want %v", step.name, got, step.want)
		}
	}
	if h, err := helm.History("shop"); err != nil || len(h) > 2 { // 1 is deployed as far as Helm knows: nobody has superseded it
		t.Errorf("%d records are left, %v", len(h), err)
	}
}
