package format

import (
	"slices"
	"testing"
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
