package reportfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"lockstep/ui/golden"
)

// TestGitHub expects one annotation per failure, and the job summary after that of earlier steps.
func TestGitHub(t *testing.T) {
	var log bytes.Buffer
	summary := filepath.Join(t.TempDir(), "summary.md")
	if err := os.WriteFile(summary, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := NewReporter(nil, &GitHub{
		Log: &log, Summary: summary,
		ChartFile: func(chart string) string { return "charts/" + chart + "/Chart.yaml" },
	})
	if err != nil {
		t.Fatal(err)
	}
	o := outcomeOf(recorded(t, "failed"), "lockstep install shop ./shop")
	o.Warnings = append(o.Warnings, Warning{Rule: "R9", Message: "shop: 100%\nlonely"})
	if err := r.Report(o); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/github.txt", log.String())
	text, _ := os.ReadFile(summary)
	if want := "before\n" + string(o.markdown()) + "\n"; string(text) != want {
		t.Errorf("job summary:\n%s\nwant\n%s", text, want)
	}
}
