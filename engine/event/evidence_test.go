package event

import "testing"

func TestRepeats(t *testing.T) {
	const quota = "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
	for _, c := range []struct {
		line, text string
		want       bool
	}{
		{"FATAL: no relation", "exited with code 3: FATAL: no relation", true},
		{"  FATAL: no relation", "FATAL: no relation", true},
		{"attempt 1", "attempt 12 failed", false},
		{"attempt 1", "attempt 12 failed: attempt 1", true},
		{"1s", "after 11s", false},
		{`Failed: Error: secret "db" not found`, `container c cannot start: secret "db" not found`, true},
		{"Failed: rpc error: not found", "image i cannot be pulled: not found", false}, // most of the line is new
		{`FailedCreate: Error creating: pods "api-1" is forbidden: ` + quota, "no pods can be created: " + quota, true},
		{"BackOff: Back-off restarting container c in pod api-1_ns(a-b)", "BackOff: Back-off restarting container c in pod api-2_ns(c-d)", true},
		{"Available is False: no pods", "no pods can be created", false},
		{"", "anything", true},
		{"anything", "", false},
	} {
		if got := Repeats(c.line, c.text); got != c.want {
			t.Errorf("%q repeats %q: %t, want %t", c.line, c.text, got, c.want)
		}
	}
}
