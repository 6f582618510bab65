package annotate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuggestedOrderIsWritten writes the suggested order of the charts of testdata, with and
// without their own ordering. The new plan is the suggested one, and nothing more is
// suggested (R69).
func TestSuggestedOrderIsWritten(t *testing.T) {
	dirs, err := os.ReadDir(testCharts)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		for _, strip := range []bool{true, false} {
			name := d.Name()
			if strip {
				name += " stripped"
			}
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), d.Name())
				if strip {
					stripped(t, filepath.Join(testCharts, d.Name()), dir)
				} else if err := os.CopyFS(dir, os.DirFS(filepath.Join(testCharts, d.Name()))); err != nil {
					t.Fatal(err)
				}
				now := render(t, dir)
				ordered, _ := now.Ordered()
				wanted, err := ordered.Plan()
				if err != nil {
					t.Fatal(err)
				}
				before := contents(t, dir)
				res, err := Prepare(t.Context(), source(dir, now), Order{ordered.Tree, ordered.Resources})
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range res.Manual {
					t.Logf("manual edit: %s:%d %v: %s: %s", l.File, l.Line, l.Objects, l.Why, strings.Join(l.Lines, "; "))
				}
				if err := res.Write(); err != nil {
					t.Fatal(err)
				}
				onlyInserted(t, before, contents(t, dir), res)
				if len(res.Manual) > 0 {
					return
				}
				after := render(t, dir)
				got, err := after.Plan()
				if err != nil {
					t.Fatal(err)
				}
				if err := comparePlans(got, wanted); err != nil {
					t.Error(err)
				}
				again, _ := after.Ordered()
				if res, err := Prepare(t.Context(), source(dir, after), Order{again.Tree, again.Resources}); err != nil || len(res.Files)+len(res.Manual) > 0 {
					t.Errorf("second time: %v, %+v", err, res)
				}
			})
		}
	}
}
