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

// TestDiagnosedAtFirstSign expects that an object is diagnosed at the first sign of trouble and, at growing intervals, at
// further ones. An object without a sign is diagnosed after a delay, a ready one never.
func TestDiagnosedAtFirstSign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		x := newExplainer()
		start := time.Now()
		diagnosed := map[string][]time.Duration{}
		var published []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.run(ctx, func(_ context.Context, o plan.Object) run.Finding {
				diagnosed[o.Name] = append(diagnosed[o.Name], time.Since(start))
				return run.Finding{Cause: o.Name + " crashes", Requests: 6}
			}, func(_ target, f run.Finding) { published = append(published, f.Cause) })
		}()
		of := func(name string) target { return target{object: plan.Object{Kind: "Deployment", Name: name}} }
		x.diagnoseNow(of("crashing")) // not observed yet
		x.observe(of("crashing"), true)
		x.observe(of("quiet"), true)
		x.observe(of("well"), false)
		x.diagnoseNow(of("well"))
		x.diagnoseNow(of("crashing"))
		synctest.Wait()
		if !slices.Equal(diagnosed["crashing"], []time.Duration{0}) || len(diagnosed["quiet"]) > 0 {
			t.Errorf("at first, diagnosed at %v", diagnosed)
		}
		for time.Since(start) < time.Minute {
			time.Sleep(100 * time.Millisecond)
			x.diagnoseNow(of("crashing"))
		}
		synctest.Wait()
		if n := len(diagnosed["crashing"]); n < 2 || n*6 > 20 {
			t.Errorf("during constant trouble, diagnosed at %v", diagnosed["crashing"])
		}
		if len(diagnosed["quiet"]) == 0 || diagnosed["quiet"][0] > 5*time.Second || len(diagnosed["well"]) > 0 {
			t.Errorf("without a sign, diagnosed at %v", diagnosed)
		}
		x.observe(of("crashing"), false)
		x.observe(of("crashing"), true) // so its cause is new again
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if want := []string{"crashing crashes", "quiet crashes", "crashing crashes"}; !slices.Equal(published, want) {
			t.Errorf("published %q, want %q", published, want)
		}
		stop()
		<-done
	})
}

// TestDiagnoseAll expects that diagnoseAll diagnoses objects that are not ready without delay, and that their findings are
// published when it returns.
func TestDiagnoseAll(t *testing.T) {
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
				t.Errorf("no finding for %s", name)
			}
		}
		if _, ok := published.Load("f"); ok || time.Since(start) != 200*time.Millisecond { // four at a time
			t.Errorf("finding for a ready object: %t; took %s", ok, time.Since(start))
		}
		x.observe(target{object: plan.Object{Kind: "Deployment", Name: "slow"}}, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if x.diagnoseAll(ctx); time.Since(start) != time.Second {
			t.Errorf("returned after %s, want the timeout of ctx", time.Since(start))
		}
	})
}

// TestCauseIsDropped expects that a published cause is dropped once the pods contradict it, and that the next one is published.
func TestCauseIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		x := newExplainer()
		web := target{object: plan.Object{Kind: "Deployment", Name: "web"}}
		causes := []run.Finding{{Cause: "not ready: 503", OfPods: true}, {Cause: "0 of 3 available", Symptom: true}}
		var published []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.run(ctx, func(context.Context, plan.Object) run.Finding {
				f := causes[0]
				causes = causes[min(1, len(causes)-1):]
				return f
			}, func(_ target, f run.Finding) { published = append(published, f.Cause) })
		}()
		x.observe(web, true)
		time.Sleep(5 * time.Second)
		if x.seePods(web, run.Pods{Unready: 1}) || !x.seePods(web, run.Pods{Ready: 1}) || x.seePods(web, run.Pods{Ready: 1}) {
			t.Error("a cause must be dropped once, when all pods are ready")
		}
		time.Sleep(5 * time.Second)
		stop()
		<-done
		if want := []string{"not ready: 503", "0 of 3 available"}; !slices.Equal(published, want) {
			t.Errorf("published %q, want %q", published, want)
		}
	})
}
