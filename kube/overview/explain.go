package overview

import (
	"context"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/parallel"
	"lockstep/kube/connect"
	"lockstep/kube/diagnose"
)

// selection is the release that the user looks at.
type selection struct {
	selected Key
	asks     chan struct{} // has a token if its worst object may have to be diagnosed
}

// explained is the diagnosis of the worst object of a release.
type explained struct {
	of    sight
	cause string // "" if the diagnosis knows no more than was seen
}

// explainDelay is how long a release is selected before its worst object is diagnosed.
const explainDelay = 300 * time.Millisecond

// Select says which release the user looks at. Its worst object is diagnosed as a run does, which costs a few requests each time
// that something else is seen of that object; zero for none. It does not block.
func (o *Overview) Select(k Key) {
	o.mu.Lock()
	o.selected = k
	o.mu.Unlock()
	signal(o.asks)
}

// explain diagnoses the worst object of the selected release until ctx is done.
func (o *Overview) explain(ctx context.Context, c *connect.Client, ruleOf diagnose.RuleOf) {
	diagnoser := diagnose.New(c.Clientset, c.Dynamic, c.Getter).WithRules(ruleOf)
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.asks:
		}
		_ = parallel.Sleep(ctx, explainDelay)
		d, seen := o.unexplained()
		if d == nil || ctx.Err() != nil {
			continue
		}
		found := diagnoser.WithMask(&d.mask).Object(ctx, seen.object).Finding
		e := explained{of: seen}
		if !found.Symptom {
			e.cause = found.Cause
		}
		o.mu.Lock()
		d.explained = e
		o.mu.Unlock()
		signal(o.changed)
	}
}

// unexplained returns the worst object of the selected release if it has failed and was not diagnosed since it is seen so, else nil.
func (o *Overview) unexplained() (*details, sight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := o.latest()[o.selected]
	d := o.details[r.key()]
	if !ok || d == nil {
		return nil, sight{}
	}
	problems, _ := d.problems(r.Status, &o.pods, time.Now())
	if len(problems) == 0 || !problems[0].failed || d.seen[problems[0].object].Status == event.Gone || d.explained.of == problems[0].sight {
		return nil, sight{}
	}
	return d, problems[0].sight
}
