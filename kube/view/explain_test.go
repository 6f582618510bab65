package view

import (
	"context"
	"slices"
	"sync"
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

// TestExplainedAtOnce looks without waiting for a sign into what is not ready, for who
// looks once alone, and tells what was found before it returns.
func TestExplainedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExplainer()
		var told sync.Map
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go x.run(running, func(ctx context.Context, o plan.Object) run.Finding {
			time.Sleep(100 * time.Millisecond)
			if o.Name == "slow" {
				<-ctx.Done()
			}
			return run.Finding{Cause: o.Name + " crashes", Requests: 6}
		}, func(of unwell, f run.Finding) { told.Store(of.object.Name, f.Cause) })
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			x.saw(unwell{object: plan.Object{Kind: "Deployment", Name: name}}, name != "f")
		}
		begun := time.Now()
		x.settle(t.Context())
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if _, ok := told.Load(name); !ok {
				t.Errorf("%s is not explained", name)
			}
		}
		if _, ok := told.Load("f"); ok || time.Since(begun) != 200*time.Millisecond { // four at a time
			t.Errorf("what is ready is explained: %t; it took %s", ok, time.Since(begun))
		}
		x.saw(unwell{object: plan.Object{Kind: "Deployment", Name: "slow"}}, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if x.settle(ctx); time.Since(begun) != time.Second {
			t.Errorf("it goes on after its end, or ends before: %s", time.Since(begun))
		}
	})
}
