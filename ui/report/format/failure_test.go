package format

import (
	"slices"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
)

// TestUnknownLines expects no evidence that repeats the cause, or other evidence about another pod.
func TestUnknownLines(t *testing.T) {
	quota := "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
	for _, c := range []struct{ lines, others, want []string }{
		{lines: []string{`FailedCreate: Error creating: pods "api-1" is forbidden: ` + quota, "Available is False: no pods"},
			others: []string{"no pods can be created: " + quota}, want: []string{"Available is False: no pods"}},
		{lines: []string{"BackOff: Back-off restarting failed container api in pod api-1_ns(a-b)", "BackOff: Back-off restarting failed container api in pod api-2_ns(c-d)"},
			want: []string{"BackOff: Back-off restarting failed container api in pod api-1_ns(a-b)"}},
		{lines: []string{"  FATAL: no relation", "FATAL: no relation", "connecting"}, others: []string{"exited with code 3: FATAL: no relation"}, want: []string{"connecting"}},
		{lines: []string{"Failed: rpc error: not found", "Unhealthy: probe failed: 503"}, others: []string{"image i cannot be pulled: not found"},
			want: []string{"Failed: rpc error: not found", "Unhealthy: probe failed: 503"}},
	} {
		if got := UnknownLines(c.lines, c.others); !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.lines, got, c.want)
		}
	}
}

// TestUnknownDetails expects what the cause does not say, and the log of a container as a whole.
func TestUnknownDetails(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	d := &event.Details{
		Source:     event.Source{Pod: "api-1", Container: "api"},
		Conditions: []string{"Available is False: too few", "Progressing is False"},
		Pods:       []event.FailingPod{{Name: "api-1", Why: "container api exited with code 3"}, {Name: "api-2", Why: "being created"}},
		Events:     []event.ClusterEvent{{Time: at, Object: "Pod/api-1", Reason: "BackOff", Message: "again", Count: 3}, {Time: at, Object: "Pod/api-2", Reason: "Pulled", Message: "image", Count: 1}},
		Log:        []string{"connecting", "FATAL: no relation"},
	}
	known := []string{"container api exited with code 3: FATAL: no relation", "Available is False: too few", "BackOff: again"}
	want := []string{"condition Progressing is False", "pod api-2: being created", "03:04:05 Pod/api-2 Pulled: image",
		"last lines of pod api-1, container api:", "  connecting", "  FATAL: no relation"}
	if got := UnknownDetails(phrase.Details(*d), d, known); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := UnknownDetails(nil, d, append(known, "connecting")); slices.Contains(got, "  connecting") {
		t.Errorf("a known log is kept: %q", got)
	}
	if got := UnknownDetails([]string{"BackOff: again", "other"}, nil, known); !slices.Equal(got, []string{"other"}) {
		t.Errorf("an old record: %q", got)
	}
}
