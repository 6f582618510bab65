package charts

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// renderOf renders a chart of one template within limits.
func renderOf(t *testing.T, ctx context.Context, template string, l Limits) error {
	t.Helper()
	o := testOptions
	o.Limits = l
	_, err := Render(ctx, load(t, tree{"Chart.yaml": chartYAML("shop"), "templates/x.yaml": template, "templates/NOTES.txt": "{{ .Values.notes }}"}), nil, o)
	return err
}

// TestTemplatesThatMakeTooMuchAreRefused: what is as large as an argument says is
// refused before it is made, as the machine might not survive it.
func TestTemplatesThatMakeTooMuchAreRefused(t *testing.T) {
	for call, want := range map[string]string{
		"untilStep 0 1000000000000 1":    "untilStep would make",
		"untilStep 0 -1000000000000 -1":  "untilStep would make",
		"until 1000000000000":            "until would make",
		"seq 1000000000000":              "seq would make",
		"seq 0 1000000000000":            "seq would make",
		"seq 0 2 1000000000000":          "seq would make",
		`repeat 1000000000000 "x"`:       "repeat would make",
		`indent 1000000000000 "x"`:       "indent would make",
		`nindent 100000000 "x\ny\nz\na"`: "nindent would make",
		"randAlphaNum 1000000000000":     "randAlphaNum would make",
		"randBytes 1000000000000":        "randBytes would make",
	} {
		err := renderOf(t, t.Context(), "a: {{ "+call+" | toString | len }}", Limits{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "shop/templates/x.yaml:1:") {
			t.Errorf("%s: %v", call, err)
		}
	}
	for _, call := range []string{"until 3", "untilStep 3 0 -1", "untilStep 0 3 0", "untilStep 0 3 -1", "seq 3", "seq 1 3", "seq 3 -1 1", "seq", `repeat 3 "x"`, "until -3", `indent 2 "x"`, "randAlpha 5"} {
		if err := renderOf(t, t.Context(), "a: {{ "+call+" | toString | quote }}\nkind: A\napiVersion: v1\nmetadata: {name: a}", Limits{}); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// endless never ends, but calls a function of ours now and then, so that it ends
// once it was given up.
const endless = `{{ range until 1000000 }}{{ range until 1000000 }}{{ $x := repeat 1 "x" }}{{ end }}{{ end }}`

func TestATemplateThatTakesTooLongIsGivenUp(t *testing.T) {
	limit := &LimitError{}
	err := renderOf(t, t.Context(), endless, Limits{Time: 50 * time.Millisecond})
	if !errors.As(err, &limit) || limit.Template != "shop/templates/x.yaml" || !strings.Contains(err.Error(), "does not end within 50ms") {
		t.Errorf("%v", err)
	}
	if err := renderOf(t, t.Context(), `{{ $x := list "a" }}{{ range until 1000000 }}{{ $x = concat $x $x }}{{ repeat 1 "x" }}{{ end }}`, Limits{Memory: 16 << 20}); !errors.As(err, &limit) ||
		!strings.Contains(err.Error(), "template shop/templates/x.yaml takes more than 16 MiB of memory") {
		t.Errorf("%v", err)
	}
}

func TestRenderingEndsWithItsContext(t *testing.T) {
	cause := errors.New("somebody has lost patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	if err := renderOf(t, ctx, endless, Limits{}); !errors.Is(err, cause) {
		t.Errorf("%v", err)
	}
}

// TestOnlyTemplatesAreWatched: what an action does besides rendering is not up to
// the guard.
func TestOnlyTemplatesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGuard(Limits{Memory: 1, Time: time.Nanosecond})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		done := errors.New("done")
		err := g.Run(ctx, func() error {
			if _, err := g.enter("x"); err != nil {
				return err
			}
			g.leave()
			time.Sleep(time.Minute)
			return done
		})
		if !errors.Is(err, done) {
			t.Errorf("%v", err)
		}
	})
}
