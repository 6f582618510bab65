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

// TestDiagnosedAtFirstSign expects the diagnosis of an object at the first sign of
// trouble, not on a timer; again at further signs, at growing intervals; of one
// without a sign after a delay; and never of one that is ready.
func TestDiagnosedAtFirstSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		x := newExplainer()
		start := time.Now()
		looks := map[string][]time.Duration{}
		var published []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.run(ctx, func(_ context.Context, o plan.Object) run.Finding {
				looks[o.Name] = append(looks[o.Name], time.Since(start))
				return run.Finding{Cause: o.Name + " crashes", Requests: 6}
			}, func(_ target, f run.Finding) { published = append(published, f.Cause) })
		}()
		of := func(name string) target { return target{object: plan.Object{Kind: "Deployment", Name: name}} }
		x.sign(of("crashing")) // nobody has seen it yet
		x.observe(of("crashing"), true)
		x.observe(of("quiet"), true)
		x.observe(of("well"), false)
		x.sign(of("well"))
		x.sign(of("crashing"))
		synctest.Wait()
		if !slices.Equal(looks["crashing"], []time.Duration{0}) || len(looks["quiet"]) > 0 {
			t.Errorf("at first, looks at %v", looks)
		}
		for time.Since(start) < time.Minute {
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
		x.observe(of("crashing"), false)
		x.observe(of("crashing"), true) // which is news, again
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if want := []string{"crashing crashes", "quiet crashes", "crashing crashes"}; !slices.Equal(published, want) {
			t.Errorf("published %q, want %q", published, want)
		}
		stop()
		<-done
	})
}

// TestDiagnosedImmediately diagnoses objects that are not ready without waiting for a
// sign, and publishes the findings before it returns.
func TestDiagnosedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newExplainer()
		var published sync.Map
		running, stop := context.WithCancel(t.Context())
		defer stop()
		go x.run(running, func(ctx context.Context, o plan.Object) run.Finding {
			time.Sleep(100 * time.Millisecond)
			if o.Name == "slow" {
				<-ctx.Done()
			}
			return run.Finding{Cause: o.Name + " crashes", Requests: 6}
		}, func(of target, f run.Finding) { published.Store(of.object.Name, f.Cause) })
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			x.observe(target{object: plan.Object{Kind: "Deployment", Name: name}}, name != "f")
		}
		start := time.Now()
		x.diagnoseAll(t.Context())
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if _, ok := published.Load(name); !ok {
				t.Errorf("%s is not explained", name)
			}
		}
		if _, ok := published.Load("f"); ok || time.Since(start) != 200*time.Millisecond { // four at a time
			t.Errorf("what is ready is explained: %t; it took %s", ok, time.Since(start))
		}
		x.observe(target{object: plan.Object{Kind: "Deployment", Name: "slow"}}, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if x.diagnoseAll(ctx); time.Since(start) != time.Second {
			t.Errorf("it goes on after its end, or ends before: %s", time.Since(start))
		}
	})
}
