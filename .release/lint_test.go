package main

import (
	"io"
	"os"
	"testing"

	"github.com/rhysd/actionlint"
)

// TestWorkflow lints the example workflow for GitHub with actionlint, and with it the inputs of the action that it calls.
func TestWorkflow(t *testing.T) {
	path := "../examples/ci/github.yml"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{IgnorePatterns: []string{`label "lockstep" is unknown`}})
	if err != nil {
		t.Fatal(err)
	}
	project, err := actionlint.NewProject("..")
	if err != nil {
		t.Fatal(err)
	}
	found, err := l.Lint(path, text, project)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		t.Errorf("%s: %v", path, e)
	}
}
