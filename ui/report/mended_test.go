package report

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRunsShowWhatWasMended: what failed, how it was mended and when (R44a).
func TestRunsShowWhatWasMended(t *testing.T) {
	state := Replay(scenarios["held"](t))
	r := &Record{Run: Run{Name: "held"}, State: state}
	text := r.text(Stream{})
	details, err := json.Marshal(r.form())
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Mended) != 2 {
		t.Fatalf("the run has %d mended failures", len(state.Mended))
	}
	for _, want := range []string{"fixed at ", "shop/db:schema: ConfigMap/ddl: admission webhook denied the request; fixed by retry"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if !strings.Contains(string(details), `"how":"retry"`) {
		t.Errorf("the JSON lacks how: %s", details)
	}
}
