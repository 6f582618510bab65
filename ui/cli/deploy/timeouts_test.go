package deploy

import (
	"slices"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestTimeoutFlags expects --timeout without --readiness-timeout to give each object the whole time (R25).
func TestTimeoutFlags(t *testing.T) {
	for _, c := range []struct {
		args                     []string
		wantTimeout, wantOfEvery time.Duration
	}{
		{nil, 5 * time.Minute, time.Minute},
		{[]string{"--timeout", "10m"}, 10 * time.Minute, 10 * time.Minute},
		{[]string{"--timeout", "10m", "--readiness-timeout", "2m"}, 10 * time.Minute, 2 * time.Minute},
		{[]string{"--readiness-timeout", "2m"}, 5 * time.Minute, 2 * time.Minute},
	} {
		var r runFlags
		cmd := &cobra.Command{}
		r.add(cmd)
		r.addReadiness(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		out, err := r.parse(cmd)
		if err != nil {
			t.Fatal(err)
		}
		common, err := out.common.Complete("n")
		if err != nil || common.Timeout != c.wantTimeout || common.ReadinessTimeout != c.wantOfEvery || out.timeout() != c.wantTimeout {
			t.Errorf("%q: %s, %s per object, %s (%v)", c.args, common.Timeout, common.ReadinessTimeout, out.timeout(), err)
		}
	}
}

// TestRerunWithMoreTime expects the suggested command to raise the timeout that expired, unless waiting longer cannot help (R25).
func TestRerunWithMoreTime(t *testing.T) {
	const m = time.Minute
	job := plan.Object{Group: "batch", Kind: "Job", Name: "migrate"}
	timedOut := func(limit event.Limit, degraded event.Status, timeout, readiness time.Duration) *event.State {
		exit, s := 1, &event.State{}
		for _, e := range []event.Event{
			{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n", Timeout: timeout, ReadinessTimeout: readiness}},
			{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Name: "g", Objects: []plan.Object{job}}}}}},
			{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running},
			{Kind: event.KindObject, Phase: "apply", Group: "c:g", Object: &job, Status: event.InProgress, Message: "running"},
			{Kind: event.KindDiagnosis, Phase: "apply", Group: "c:g", Object: &job, Status: degraded, Message: "running"},
			{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Object: &job, Status: event.Failed, Message: "Job/migrate: running", Limit: limit},
			{Kind: event.KindOperation, Status: event.Failed, Release: "none", Exit: &exit},
		} {
			e.Time = time.Unix(1, 0)
			s.Apply(e)
		}
		return s
	}
	const more, fix = "   # with more time, or after fixing it", "   # after fixing it"
	for _, c := range []struct {
		args  []string
		state *event.State
		want  string
	}{
		{nil, timedOut(event.LimitObject, event.InProgress, 5*m, m), "lockstep install s ./c -n n --readiness-timeout 2m" + more},
		{nil, timedOut(event.LimitOperation, event.InProgress, 5*m, m), "lockstep install s ./c -n n --timeout 10m" + more},
		{[]string{"--timeout", "10m"}, timedOut(event.LimitObject, event.InProgress, 10*m, 10*m), "lockstep install s ./c -n n --timeout 20m" + more},
		{[]string{"--timeout", "90s", "--readiness-timeout", "1m"}, timedOut(event.LimitObject, event.InProgress, 90*time.Second, m),
			"lockstep install s ./c -n n --readiness-timeout 2m --timeout 2m" + more},
		{nil, timedOut(event.LimitObject, event.Degraded, 5*m, m), "lockstep install s ./c -n n" + fix},
		{nil, timedOut("", event.InProgress, 5*m, m), "lockstep install s ./c -n n" + fix},
	} {
		p := mustParse(t, append([]string{"install", "s", "./c", "-n", "n"}, c.args...)...)
		if got := p.afterDeploy(c.state, "./c", nil, false); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
	// The timeout of a release of a stack comes from the helmfile, so no flag raises it.
	p := mustParse(t, "up", "-f", "hf.yaml")
	stack := &event.State{Operation: event.Operation{Name: "up"}, Status: event.Failed, Exit: 1,
		Scopes: map[string]*event.State{"n/s": timedOut(event.LimitObject, event.InProgress, 3*m, m)}}
	if got, want := p.afterStack(stack, false), "lockstep up -f hf.yaml --readiness-timeout 2m"+more; !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
	stack.Scopes["n/s"] = timedOut(event.LimitOperation, event.InProgress, 3*m, 3*m)
	if got, want := p.afterStack(stack, false), "lockstep up -f hf.yaml"+fix; !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLateHookIsNamed: pods that are not ready in time may need a hook that runs after them.
func TestLateHookIsNamed(t *testing.T) {
	web, job := plan.Object{Group: "apps", Kind: "Deployment", Name: "web"}, plan.Object{Group: "batch", Kind: "Job", Name: "init"}
	ended := func(limit event.Limit, kind string) *event.State {
		hook := job
		hook.Kind = kind
		exit, s := 1, &event.State{}
		for _, e := range []event.Event{
			{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "s", Namespace: "n"}},
			{Kind: event.KindPlan, Phases: []event.Phase{
				{Name: "pre-install", Kind: event.PhaseHooks, Groups: []*plan.Group{{ID: "pre-install:Job/first", Objects: []plan.Object{{Kind: "Job", Name: "first"}}}}},
				{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Name: "g", Objects: []plan.Object{web}}}},
				{Name: "post-install", Kind: event.PhaseHooks, Groups: []*plan.Group{{ID: "post-install:Job/init", Objects: []plan.Object{hook}}}}}},
			{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running},
			{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Object: &web, Status: event.Failed, Message: "Deployment/web: not ready", Limit: limit},
			{Kind: event.KindGroup, Phase: "post-install", Group: "post-install:Job/init", Status: event.Skipped},
			{Kind: event.KindOperation, Status: event.Failed, Release: "failed", Exit: &exit},
		} {
			e.Time = time.Unix(1, 0)
			s.Apply(e)
		}
		return s
	}
	const want = "lockstep install s ./c -n n --set a=b --wait=hookOnly   # or if its pods need post-install:Job/init: in Helm's order, without waiting"
	p := mustParse(t, "install", "s", "./c", "-n", "n", "--order=inferred", "--wait=ordered", "--set", "a=b")
	if got := p.afterDeploy(ended(event.LimitObject, "Job"), "./c", nil, false); !slices.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, s := range []*event.State{ended("", "Job"), ended(event.LimitObject, "Secret")} {
		if got := p.afterDeploy(s, "./c", nil, false); len(got) != 2 {
			t.Errorf("%q", got)
		}
	}
}
