package view

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// TestExplainedAtTheFirstSign looks into an object at the first sign of trouble, not
// on a clock; again at further signs, less and less often; into one without a sign
// after a while; and into none that is well.
func TestExplainedAtTheFirstSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		x := newExplainer()
		begun := time.Now()
		looks := map[string][]time.Duration{}
		var told []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.run(ctx, func(_ context.Context, o plan.Object) run.Finding {
				looks[o.Name] = append(looks[o.Name], time.Since(begun))
				return run.Finding{Cause: o.Name + " crashes", Requests: 6}
			}, func(_ unwell, f run.Finding) { told = append(told, f.Cause) })
		}()
		of := func(name string) unwell { return unwell{object: plan.Object{Kind: "Deployment", Name: name}} }
		x.sign(of("crashing")) // nobody has seen it yet
		x.saw(of("crashing"), true)
		x.saw(of("quiet"), true)
		x.saw(of("well"), false)
		x.sign(of("well"))
		x.sign(of("crashing"))
		synctest.Wait()
		if !slices.Equal(looks["crashing"], []time.Duration{0}) || len(looks["quiet"]) > 0 {
			t.Errorf("at first, looks at %v", looks)
		}
		for time.Since(begun) < time.Minute {
			time.Sleep(100 * time.Millisecond)
			x.sign(of("crashing"))
		}
		synctest.Wait()
		if n := len(looks["crashing"]); n < 2 || n*6 > 20 {
			t.Errorf("signs without end lead to looks at %v", looks["crashing"])
		}
		if len(looks["quiet"]) == 0 || looks["quiet"][0] > 5*time.Second || len(looks["well"]) > 0 {
			t.Errorf("without a sign, looks at %v", looks)
		}
		x.saw(of("crashing"), false)
		x.saw(of("crashing"), true) // which is news, again
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if want := []string{"crashing crashes", "quiet crashes", "crashing crashes"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		stop()
		<-done
	})
}
