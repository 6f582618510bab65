package run

import (
	"context"
	"sync"
	"time"
)

// loop owns the machine: it passes messages to it and performs its effects, in one goroutine.
type loop struct {
	*Engine
	machine *machine
	// requests is the result of RequestContext. It carries the result of RetryContext as a value.
	requests       context.Context
	cancelRequests context.CancelFunc
	endRetries     context.CancelCauseFunc
	// early are the commands for groups that came before the plan, which planned says is known.
	early   []commanded
	planned bool
}

// diagnoseTimeout limits one diagnosis.
const diagnoseTimeout = 5 * time.Second

func (l *loop) run() {
	defer close(l.done)
	defer l.opts.Feed.Close()
	defer l.cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if wake := l.machine.wake(); wake.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(time.Until(wake), 0))
		}
		select {
		case <-l.inbox.ready:
			for _, msg := range l.inbox.drain() {
				l.handle(msg)
				if l.machine.ended {
					return
				}
			}
		case <-timer.C:
			l.handle(ticked{})
		}
	}
}

// handle passes a message to the machine. Commands for groups wait for the plan: an approval may be in the cluster already when the
// run starts.
func (l *loop) handle(msg message) {
	switch msg := msg.(type) {
	case asked:
		msg.answer(l)
		return
	case commanded:
		if !l.planned && msg.command.Group != "" {
			l.early = append(l.early, msg)
			return
		}
	case transitionRequested: // it may end the run
		l.handleEarly()
	}
	l.perform(l.machine.handle(time.Now(), msg))
	switch msg.(type) {
	case announced, stageStarted:
		l.handleEarly()
	}
}

// handleEarly passes on the commands that came before the plan.
func (l *loop) handleEarly() {
	early := l.early
	l.early, l.planned = nil, true
	for _, msg := range early {
		l.perform(l.machine.handle(time.Now(), msg))
	}
}

func (l *loop) perform(effects []effect) {
	if len(effects) == 0 {
		return
	}
	keep, keeps := effects[0].(keepSteering)
	var err error
	if keeps {
		err = l.opts.Keep(keep.steering)
	}
	for _, eff := range effects {
		switch eff := eff.(type) {
		case publish:
			if eff.closing {
				l.opts.Feed.End(eff.event)
			} else {
				l.opts.Feed.Publish(eff.event)
			}
		case sendRequest:
			l.send(eff.request)
		case startWatch:
			l.watch(eff.group)
		case startDiagnosis:
			l.diagnose(eff.diagnosis)
		case startRefresh:
			l.refresh(eff.deadline)
		case startLook:
			l.lookAtPods(eff)
		case reportAccepted:
			eff.command.Accepted()
		case endRetries:
			l.endRetries(eff.cause)
		case cancelRequests:
			l.cancelRequests()
		case resetRequests:
			l.cancelRequests()
			l.newRequestContexts()
		case replyAdmit:
			eff.admission.done <- eff.err
		case reportAllApplied:
			close(eff.run.applied)
		case endStage:
			eff.run.err = eff.err
			close(eff.run.done)
		case replyTransition:
			eff.reply <- eff.err
		}
	}
	if keeps && !l.machine.ended {
		l.perform(l.machine.handle(time.Now(), steeringKept{err}))
	}
}

func (l *loop) watch(g *group) {
	report := func(o Observation) { l.inbox.put(observed{g, o}) }
	if g.gated != nil {
		g.stage.WatchOutside(l.ctx, g.def, report)
		return
	}
	g.stage.Cluster.Watch(l.ctx, g.def, report)
}

type retryKey struct{}

// newRequestContexts creates the contexts of requests and of retries.
func (l *loop) newRequestContexts() {
	requests, cancel := context.WithCancel(l.ctx)
	retries, end := context.WithCancelCause(requests)
	l.requests = context.WithValue(requests, retryKey{}, retries)
	l.cancelRequests = cancel
	l.endRetries = end
}

// RetryContext returns the context that ends when the run stops retrying requests: at an abort,
// an edit or the timeout. If ctx does not derive from a RequestContext, RetryContext returns ctx.
func RetryContext(ctx context.Context) context.Context {
	if retries, ok := ctx.Value(retryKey{}).(context.Context); ok {
		return retries
	}
	return ctx
}

func (l *loop) send(r request) {
	call := r.stage.Cluster.Apply
	if r.stage.removes() {
		call = r.stage.Cluster.Delete
	}
	ctx := l.requests
	go func() {
		out, err := call(ctx, r.group.def, r.object.Object)
		l.inbox.put(answered{r, out, err})
		if err == nil && out.WaitGone != nil {
			out.WaitGone(l.ctx)
			l.inbox.put(nameFreed{r})
		}
	}()
}

// diagnose runs a diagnosis with a time limit: a failure is published only after its diagnosis,
// which could hang.
func (l *loop) diagnose(d diagnosis) {
	ctx, cancel := context.WithTimeout(l.ctx, diagnoseTimeout)
	found := make(chan Finding, 1)
	go func() { found <- l.opts.Diagnose(ctx, d.actual) }()
	go func() {
		defer cancel()
		select {
		case f := <-found:
			l.inbox.put(diagnosed{d, f})
		case <-ctx.Done():
			l.inbox.put(diagnosed{diagnosis: d})
		}
	}()
}

func (l *loop) refresh(d *deadline) {
	actual := d.object.actual()
	go func() {
		l.opts.Refresh(l.ctx, actual)
		l.inbox.put(refreshed{d})
	}()
}

func (l *loop) lookAtPods(look startLook) {
	go func() {
		l.opts.LookAtPods(l.ctx, look.objects)
		for _, o := range look.lost {
			l.opts.Refresh(l.ctx, o)
		}
		l.inbox.put(lookedAtPods{look.settling})
	}()
}

// inbox is the queue of the loop. It is unbounded, so that neither a watch nor a key press
// ever waits for the loop.
type inbox struct {
	mu    sync.Mutex
	queue []message
	ready chan struct{} // has a token while queue is not empty
}

func (b *inbox) put(msg message) {
	b.mu.Lock()
	b.queue = append(b.queue, msg)
	b.mu.Unlock()
	select {
	case b.ready <- struct{}{}:
	default:
	}
}

func (b *inbox) drain() []message {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue
	b.queue = nil
	return q
}
