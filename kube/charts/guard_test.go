package charts

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"helm.sh/helm/v4/pkg/engine"
)

// renderOf renders a chart of one template within limits.
func renderOf(t *testing.T, ctx context.Context, template string, l Limits) error {
	t.Helper()
	o := testOptions
	o.Limits = l
	_, err := Render(ctx, load(t, tree{"Chart.yaml": chartYAML("shop"), "templates/x.yaml": template, "templates/NOTES.txt": "{{ .Values.notes }}"}), nil, o)
	return err
}

// TestLargeResultsAreRefused: functions whose result is as large as an argument refuse large
// arguments before they allocate memory.
func TestLargeResultsAreRefused(t *testing.T) {
	for call, want := range map[string]string{
		"untilStep 0 1000000000000 1":    "untilStep would produce",
		"untilStep 0 -1000000000000 -1":  "untilStep would produce",
		"until 1000000000000":            "until would produce",
		"seq 1000000000000":              "seq would produce",
		"seq 0 1000000000000":            "seq would produce",
		"seq 0 2 1000000000000":          "seq would produce",
		`repeat 1000000000000 "x"`:       "repeat would produce",
		`indent 1000000000000 "x"`:       "indent would produce",
		`nindent 100000000 "x\ny\nz\na"`: "nindent would produce",
		"randAlphaNum 1000000000000":     "randAlphaNum would produce",
		"randBytes 1000000000000":        "randBytes would produce",
	} {
		err := renderOf(t, t.Context(), "a: {{ "+call+" | toString | len }}", Limits{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shop/templates/x.yaml:1:") {
			t.Errorf("%s: error %v, want %q", call, err, want)
		}
	}
	for _, call := range []string{"until 3", "untilStep 3 0 -1", "untilStep 0 3 0", "untilStep 0 3 -1", "seq 3", "seq 1 3", "seq 3 -1 1", "seq", `repeat 3 "x"`, "until -3", `indent 2 "x"`, "randAlpha 5"} {
		if err := renderOf(t, t.Context(), "a: {{ "+call+" | toString | quote }}\nkind: A\napiVersion: v1\nmetadata: {name: a}", Limits{}); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// endless runs for a very long time. It calls a function of Guard.Funcs, so that it ends once it is
// abandoned.
const endless = `{{ range until 1000000 }}{{ range until 1000000 }}{{ $x := repeat 1 "x" }}{{ end }}{{ end }}`

func TestTimeAndMemoryLimits(t *testing.T) {
	limit := &limitError{}
	err := renderOf(t, t.Context(), endless, Limits{Time: time.Second})
	if !errors.As(err, &limit) || limit.template != "shop/templates/x.yaml" || !strings.Contains(err.Error(), "did not finish within 1s") {
		t.Errorf("time limit: error %v", err)
	}
	if err := renderOf(t, t.Context(), `{{ $x := list "a" }}{{ range until 1000000 }}{{ $x = concat $x $x }}{{ repeat 1 "x" }}{{ end }}`, Limits{Memory: 16 << 20}); !errors.As(err, &limit) ||
		!strings.Contains(err.Error(), "template shop/templates/x.yaml needs more than 16 MiB of memory") {
		t.Errorf("memory limit: error %v", err)
	}
}

func TestRenderingEndsWithItsContext(t *testing.T) {
	cause := errors.New("interrupted by a test")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if err := renderOf(t, ctx, endless, Limits{}); !errors.Is(err, cause) {
		t.Errorf("error %v, want %v", err, cause)
	}
}

// TestAbandonedTemplateFails: a rendering that was abandoned ends with the template that is running.
func TestAbandonedTemplateFails(t *testing.T) {
	renderSlot <- struct{}{} // a rendering that an earlier test abandoned may hold it
	<-renderSlot
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(Limits{Time: time.Nanosecond})
		left := make(chan error, 1)
		err := g.Run(t.Context(), func() error {
			time.Sleep(2 * pollInterval)
			_, err := g.leave(0)
			left <- err
			return err
		})
		if leaveErr := <-left; !IsLimit(err) || !IsLimit(leaveErr) {
			t.Errorf("Run returned %v, leave %v; want the time limit", err, leaveErr)
		}
	})
}

// slowPostRenderer needs longer than a limit.
type slowPostRenderer struct{ time time.Duration }

func (p slowPostRenderer) Run(manifests *bytes.Buffer) (*bytes.Buffer, error) {
	time.Sleep(p.time)
	return manifests, nil
}

// TestOnlyTemplatesAreLimited: the limits do not apply to what an action does after rendering.
func TestOnlyTemplatesAreLimited(t *testing.T) {
	h, err := load(t, tree{"Chart.yaml": chartYAML("shop"), "templates/x.yaml": configMap("a")}).Helm()
	if err != nil {
		t.Fatal(err)
	}
	const limit = time.Minute
	synctest.Test(t, func(t *testing.T) {
		r := NewRendering(t.Context(), h, engine.Engine{}, NewGuard(Limits{Time: limit}))
		o := testOptions
		o.PostRenderer = slowPostRenderer{2 * limit}
		if _, err := dryInstall(t.Context(), h, r.Funcs(), nil, o); err != nil || r.Err() != nil {
			t.Errorf("errors %v, %v", err, r.Err())
		}
	})
}

// TestRunningTemplate: the error about a limit names the template that is running, not one that it includes.
func TestRunningTemplate(t *testing.T) {
	o := testOptions
	o.Limits.Time = time.Second
	_, err := Render(t.Context(), load(t, plus(in("charts/db", tree{
		"Chart.yaml": chartYAML("db"), "templates/a.yaml": "{{ include \"db.last\" . }}", "templates/_h.tpl": "{{ define \"db.last\" }}{{ if eq .Chart.Name \"two\" }}" + endless + "{{ end }}{{ end }}"}), tree{
		"Chart.yaml":       chartYAML("shop", "dependencies:\n", dep("db", "alias: one"), dep("db", "alias: two")),
		"templates/a.yaml": "",
	})), nil, o)
	limit := &limitError{}
	if !errors.As(err, &limit) || limit.template != "shop/charts/two/templates/a.yaml" {
		t.Errorf("error %v", err)
	}
	_, err = Render(t.Context(), load(t, tree{
		"Chart.yaml": chartYAML("shop"), "templates/c.yaml": "", "templates/a.yaml": "",
		"templates/b.yaml": "{{ include \"shop/templates/a.yaml\" . }}{{ include \"shop/templates/c.yaml\" . }}" + endless,
	}), nil, o)
	if !errors.As(err, &limit) || limit.template != "shop/templates/b.yaml" {
		t.Errorf("error %v", err)
	}
}

// hog allocates memory, closes made, and keeps the memory until end is closed.
func hog(bytes int, made chan<- struct{}, end <-chan struct{}) error {
	kept := make([]byte, bytes)
	for i := 0; i < len(kept); i += 4096 {
		kept[i] = 1
	}
	close(made)
	<-end
	runtime.KeepAlive(kept)
	return nil
}

// TestMemoryIsCountedPerRendering renders two charts at once. One needs more memory than the
// limit of the other, and both succeed.
func TestMemoryIsCountedPerRendering(t *testing.T) {
	small, large := NewGuard(Limits{Memory: 32 << 20}), NewGuard(Limits{Memory: 1 << 30})
	made, end := make(chan struct{}), make(chan struct{})
	var both sync.WaitGroup
	err := small.Run(t.Context(), func() error {
		both.Go(func() {
			if err := large.Run(t.Context(), func() error { return hog(128<<20, made, end) }); err != nil {
				t.Error(err)
			}
		})
		select {
		case <-made:
			t.Error("both rendered at the same time")
		case <-time.After(8 * pollInterval): // small checks its limits meanwhile
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	<-made
	close(end)
	both.Wait()
}

// TestStackLimitIsRestored overlaps two renderings and checks that the process has its old
// stack limit afterwards.
func TestStackLimitIsRestored(t *testing.T) {
	// A rendering that an earlier test abandoned restores its own limit when it ends.
	renderSlot <- struct{}{}
	before := debug.SetMaxStack(500 << 20)
	<-renderSlot
	defer debug.SetMaxStack(before)
	first, second := NewGuard(Limits{}), NewGuard(Limits{})
	begun, end := make(chan struct{}), make(chan struct{})
	var both sync.WaitGroup
	_ = first.Run(t.Context(), func() error {
		both.Go(func() {
			_ = second.Run(t.Context(), func() error {
				close(begun)
				<-end
				return nil
			})
		})
		return nil
	})
	<-begun
	close(end)
	both.Wait()
	if after := debug.SetMaxStack(500 << 20); after != 500<<20 {
		t.Errorf("stack limit %d bytes, was %d", after, 500<<20)
	}
}

// TestSlotIsReleased: after any kind of failure the next rendering can start.
func TestSlotIsReleased(t *testing.T) {
	for _, template := range []string{`{{ fail "no" }}`, `{{ include "nothing" . }}`, `{{ repeat 1000000000000 "x" }}`, "a: b", endless} {
		_ = renderOf(t, t.Context(), template, Limits{Time: 200 * time.Millisecond})
		g := NewGuard(Limits{})
		err := g.Run(t.Context(), func() error { return errors.New("failed") })
		if err == nil || err.Error() != "failed" {
			t.Errorf("after %s: %v", template, err)
		}
	}
}
