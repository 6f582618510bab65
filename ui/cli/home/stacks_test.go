package home

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/ui/home"
	"lockstep/ui/report"
)

// TestLastStacks: the releases of the last run of a stack come from its record, if it is not old and they are in the cluster.
func TestLastStacks(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, err := report.RunDir()
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile("../../../testdata/runs/sandbox-stack.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "20261123-170253-shop.ndjson"), record, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 23, 18, 0, 0, 0, time.UTC)
	all := lastStacks("", at)
	if len(all) != 1 || all[0].Name != "shop" || all[0].Operation != "up" || all[0].Record != "20261123-170253-shop" {
		t.Fatalf("the stacks are %+v", all)
	}
	if got, want := fmt.Sprint(all[0].Members), "[{data monitoring} {data queue} {data database} {shop identity} {shop shop}]"; got != want {
		t.Errorf("the releases are %s, want %s", got, want)
	}
	if old := lastStacks("", at.Add(lately)); len(old) != 0 {
		t.Errorf("a day later: %+v", old)
	}
	for id, want := range map[string]bool{"data/pg": false, "pg": false, "prod/data/pg": true, "here/data/pg": false, "arn:a/b/data/pg": true} {
		if got := isElsewhere(id, "here"); got != want {
			t.Errorf("%s is elsewhere: %v", id, got)
		}
	}
	if o := (&outside{shown: "shop"}); len(o.releases([]home.Stack{all[0]})) != 0 {
		t.Error("releases that nobody has read")
	}
}
