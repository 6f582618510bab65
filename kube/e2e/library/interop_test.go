package library

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/kube"
	"lockstep/kube/charts"
	"lockstep/kube/e2e/rig"
)

// TestBackAndForthWithHelm switches between the two programs on one release (R28): install
// with one, upgrade with the other, roll back with the first, uninstall with the second.
func TestBackAndForthWithHelm(t *testing.T) {
	t.Parallel()
	const chart = "stored-keys"
	path := filepath.Join(rig.ChartsDir, chart)
	t.Run("lockstep first", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.Deploy(chart, nil)
		r.MustHelm("upgrade", "t", path)
		out := r.MustRun(r.Rollback(1))
		if n := len(out.State.Phases[0].Groups); n != 3 {
			t.Errorf("the rollback to revision 1 has %d groups, want 3 (R32)", n)
		}
		if got, want := r.History(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
			t.Errorf("history %v, want %v", got, want)
		}
		if status := r.MustHelm("status", "t"); !strings.Contains(status, "STATUS: deployed") {
			t.Errorf("helm status: %s", status)
		}
		r.MustHelm("uninstall", "t")
		if left := r.Labelled(); len(left) > 0 {
			t.Errorf("not removed: %v", left)
		}
	})
	t.Run("helm first", func(t *testing.T) {
		t.Parallel()
		r := rig.New(t)
		r.MustHelm("install", "t", path)
		r.MustRun(r.Upgrade(chart, nil))
		r.MustHelm("rollback", "t", "1")
		if got, want := r.History(), []string{"1 superseded", "2 superseded", "3 deployed"}; !slices.Equal(got, want) {
			t.Errorf("history %v, want %v", got, want)
		}
		out := r.MustRun(r.Uninstall())
		if n := len(out.State.Phases[0].Groups); n != 1 {
			t.Errorf("a revision of Helm's is removed in %d groups, want 1", n)
		}
		if left := r.Labelled(); len(left) > 0 {
			t.Errorf("not removed: %v", left)
		}
	})
}

// TestHelmReadsOurReleases has Helm roll back to a revision whose chart has annotation keys
// that the API server refuses (R3), list it, and uninstall it.
func TestHelmReadsOurReleases(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Deploy("hip9999-layers", nil)
	r.MustRun(r.Upgrade("hip9999-layers", nil))
	r.MustHelm("rollback", "t", "1")
	for _, args := range [][]string{{"history", "t"}, {"get", "all", "t"}, {"list"}} {
		if out := r.MustHelm(args...); !strings.Contains(out, "hip9999-layers") {
			t.Errorf("helm %v: %s", args, out)
		}
	}
	// lockstep still uninstalls the revision that Helm created in order.
	out := r.MustRun(r.Uninstall())
	if n := len(out.State.Phases[0].Groups); n < 3 {
		t.Errorf("a sequenced revision that Helm rolled back to is removed in %d groups, want at least 3", n)
	}
}

// TestHelmsOwnCharts installs and uninstalls every chart of Helm's own tests with both programs. The outcome and the
// objects are the same.
func TestHelmsOwnCharts(t *testing.T) {
	t.Parallel()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "helm.sh/helm/v4").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "pkg/cmd/testdata/testcharts/*"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no charts", err)
	}
	var installed atomic.Int32
	t.Cleanup(func() {
		if n := installed.Load(); n < 5 && !t.Failed() {
			t.Errorf("%d of Helm's charts are installable: is the test looking at the right folder?", n)
		}
	})
	for _, path := range paths {
		if strings.HasSuffix(path, ".prov") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			helmOut, helmErr := r.RunHelm("install", "t", path)
			var want []string
			if helmErr == nil {
				want = r.Objects()
				r.MustHelm("uninstall", "t", "--wait")
			}
			ours := rig.NewNamed(t, r.Namespace+"-l")
			err := tryDeploy(ours, path)
			if (err == nil) != (helmErr == nil) {
				t.Fatalf("helm says %v (%s), lockstep %v", helmErr, helmOut, err)
			}
			if err != nil {
				return
			}
			installed.Add(1)
			if got := ours.Objects(); !slices.Equal(got, want) {
				t.Errorf("objects %v, with helm %v", got, want)
			}
			ours.MustRun(ours.Uninstall())
			if left := ours.Objects(); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
		})
	}
}

// tryDeploy installs the chart at a path.
func tryDeploy(r *rig.Rig, path string) error {
	c, err := charts.LoadPath(path)
	if err != nil {
		return err
	}
	op, err := r.Client.PrepareInstall(context.Background(), kube.Deploy{ChartOptions: kube.ChartOptions{Chart: c}, Common: kube.Common{Release: "t", Namespace: r.Namespace}})
	if err != nil {
		return err
	}
	return r.Run(op, nil).Err
}
