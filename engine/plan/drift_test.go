package plan

import (
	"slices"
	"strings"
	"testing"
)

// TestIgnoredDrift (S18): a list of JSON pointers is read; anything else ignores nothing, and is a warning of lint and of the
// plan, not an error.
func TestIgnoredDrift(t *testing.T) {
	for value, want := range map[string][]string{
		`["/spec/replicas", "/metadata/labels/a~1b"]`: {"/spec/replicas", "/metadata/labels/a~1b"},
		"": nil, "null": nil,
	} {
		if got, err := ReadIgnoredDrift(map[string]string{AnnotationIgnoreDrift: value}); !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
	for _, value := range []string{"/spec/replicas", `["spec.replicas"]`, `["/"]`, `["/a~2"]`, `[1]`, `{"/a": 1}`, `[""]`} {
		annotations := map[string]string{AnnotationIgnoreDrift: value}
		if got, err := ReadIgnoredDrift(annotations); err == nil || got != nil {
			t.Errorf("%s is accepted: %q", value, got)
		}
		r := []Resource{{Object: Object{Kind: "Job", Name: "a"}, Chart: "shop", Annotations: annotations}}
		isWarning := func(w string) bool { return strings.Contains(w, "Job/a: annotation lockstep/ignore-drift") }
		if f := AwaitedJobs.Lint(&Chart{Path: "shop"}, r); len(f) != 1 || f[0].Severity != SeverityWarning || f[0].Rule != "S18" || !isWarning(f[0].Message) {
			t.Errorf("lint of %s: %v", value, f)
		}
		if p, err := Build(&Chart{Path: "shop"}, r); err != nil || len(p.Warnings) != 1 || !isWarning(p.Warnings[0].Message) {
			t.Errorf("plan of %s: %v, %v", value, p, err)
		}
	}
	if !InPointer("/spec/a/b", []string{"/spec/a"}) || !InPointer("/spec/a", []string{"/x", "/spec/a"}) || InPointer("/spec/ab", []string{"/spec/a"}) || InPointer("/spec", []string{"/spec/a"}) {
		t.Error("InPointer")
	}
}
