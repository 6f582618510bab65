package report

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRunsShowFixedFailures checks that "runs show" has fixed failures, how and when they
// were fixed.
func TestRunsShowFixedFailures(t *testing.T) {
	state := Replay(scenarios["held"](t))
	r := &Record{Run: Run{Name: "held"}, State: state}
	text := r.text(Stream{})
	details, err := json.Marshal(r.jsonForm())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Fixed()) != 2 {
		t.Fatalf("got %d fixed failures, want 2", len(state.Fixed()))
	}
	for _, want := range []string{"fixed at ", "shop/db:schema: ConfigMap/ddl: admission webhook denied the request; fixed by a retry"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if !strings.Contains(string(details), `"how":"retry"`) {
		t.Errorf("the JSON lacks how: %s", details)
	}
}
