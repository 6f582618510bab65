package reportfile

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestReportReplacesFiles expects that NewReporter leaves existing files alone, that Report replaces the target of a
// link, and that no temporary files remain.
func TestReportReplacesFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("old.xml"), []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old.xml", in("link.xml")); err != nil {
		t.Fatal(err)
	}
	r, err := NewReporter([]string{"junit=" + in("link.xml"), "json=" + in("new.json")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(in("old.xml")); string(text) != "old" {
		t.Error("NewReporter wrote the file")
	}
	if err := r.Report(outcomeOf(recorded(t, "succeeded"))); err != nil || !r.Reported() {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(in("old.xml")); !bytes.HasPrefix(text, []byte("<?xml")) {
		t.Errorf("the target of the link contains %q", text)
	}
	names, _ := filepath.Glob(in("*"))
	hidden, _ := filepath.Glob(in(".*"))
	if len(names) != 3 || len(hidden) > 0 {
		t.Errorf("files: %q %q", names, hidden)
	}
}

// TestInvalidArguments expects an error for an unknown format, an impossible file, and a file named twice.
func TestInvalidArguments(t *testing.T) {
	dir := t.TempDir()
	for _, arg := range []string{"junit", "junit=", "yaml=x", "junit=" + dir, "junit=" + filepath.Join(dir, "none", "x.xml")} {
		if _, err := NewReporter([]string{arg}, nil); err == nil || !strings.HasPrefix(err.Error(), "--report "+arg+": ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	same := "json=" + filepath.Join(dir, "x")
	if _, err := NewReporter([]string{same, same}, nil); err == nil {
		t.Error("no error for two reports in the same file")
	}
}

// TestWriteErrorIsReported expects that Report names the file that it cannot write.
func TestWriteErrorIsReported(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	r, err := NewReporter([]string{"json=/dev/full"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Report(NotStarted(install, time.Time{}, 2, nil, nil)); err == nil || !strings.Contains(err.Error(), "cannot write the json report") {
		t.Errorf("full disk: %v", err)
	}
}
