package annotation

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The README's table is this package's Table, row by row.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "| `"+Prefix) {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, e := range Table {
		want = append(want, fmt.Sprintf("| `%s%s` | %s | %s | %s | %s |", Prefix, e.Name, e.On, e.Value, e.Default, e.Meaning))
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("the table in README.md should be\n%s", w)
	}
}

func TestValues(t *testing.T) {
	v := Of(map[string]string{
		"sandbox/start-delay": "1.5s", "sandbox/exit-code": "3", "sandbox/fail": "image",
		"sandbox/ready-delay": "-1s", "sandbox/fail-times": "many", "other/run-duration": "1h",
	})
	if d := v.Duration(StartDelay, 0); d != 1500*time.Millisecond {
		t.Errorf("duration: %v", d)
	}
	if n := v.Int(ExitCode, 0, 255); n != 3 {
		t.Errorf("number: %d", n)
	}
	if s := v.OneOf(Fail, "image", "config"); s != "image" {
		t.Errorf("one of several: %q", s)
	}
	if d := v.Duration(RunDuration, time.Second); d != time.Second {
		t.Errorf("the annotation of somebody else counts: %v", d)
	}
	if len(v.Problems()) != 0 {
		t.Errorf("problems with good values: %q", v.Problems())
	}
	if d := v.Duration(ReadyDelay, time.Minute); d != time.Minute {
		t.Errorf("a negative duration counts: %v", d)
	}
	if n := v.Int(FailTimes, 7, 10); n != 7 {
		t.Errorf("a word counts as %d", n)
	}
	if s := v.OneOf(Fail, "config"); s != "" {
		t.Errorf("a value that is not allowed: %q", s)
	}
	if n := len(v.Problems()); n != 3 {
		t.Errorf("%d problems, want 3: %q", n, v.Problems())
	}
}
