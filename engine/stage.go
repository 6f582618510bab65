package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stage is one phase and what it is done with.
type Stage struct {
	Phase   Phase
	Cluster Cluster
	// Await tells which groups are over only when their objects are ready;
	// the others are over once the API server has their objects (R21). Nil
	// awaits every group. Removals always wait until the objects are gone.
	Await func(*Group) bool
	// Readiness is how long an awaited object may take from its apply, in
	// active time; 0 for no limit of its own (R25).
	Readiness time.Duration
}

// Failure is a group that failed, and the object that made it fail.
type Failure struct {
	Group   string
	Object  Object
	Message string
}

// StageError is why a stage did not do all it should.
type StageError struct {
	Failures []Failure
	// Skipped lists the groups that never started, in plan order.
	Skipped []string
	// Cause is ErrAborted or ErrTimeout where that ended the stage, or nil.
	Cause error
}

func (s *StageError) Unwrap() error { return s.Cause }

func (s *StageError) Error() string {
	var parts []string
	if s.Cause != nil {
		parts = append(parts, s.Cause.Error())
	}
	for _, f := range s.Failures {
		parts = append(parts, fmt.Sprintf("%s: %s: %s", f.Group, f.Object, f.Message))
	}
	if len(s.Skipped) > 0 {
		parts = append(parts, "never started: "+strings.Join(s.Skipped, ", "))
	}
	return strings.Join(parts, "; ")
}

// StageRun is a stage under way.
type StageRun struct {
	Stage
	e       *Engine
	groups  []*groupRun // in plan order
	byID    map[string]*groupRun
	applied chan struct{} // closed when every request was answered
	done    chan struct{} // closed when err is set
	err     error

	tasks      []task // requests that wait for a free place
	busy       int    // requests under way
	diagnosing int
	deadlines  []deadline
	failing    bool // a group failed and is given up: nothing more starts
	failures   []*Failure
	closed     bool
	era        int // of the engine when the stage began
}

type groupRun struct {
	*Group
	status  Status
	await   bool
	left    int  // gates that are not open
	passed  bool // its breakpoint has been passed
	admit   bool // Admit let it go before the stage began
	watched bool
	after   []*groupRun // groups that wait for this one
	objects []*objectRun
	index   map[Object]*objectRun
	wave    int // the wave whose requests are under way
	sent    int // objects before this one have been sent
	pending int // requests of this attempt without an answer
	unready int // awaited objects that are not done
	attempt int
}

type objectRun struct {
	Object
	answered bool // the API server has answered this attempt's request
	version  uint64
	name     string    // the name that the API server made, if it did
	since    time.Time // when the request was answered
	last     Observation
	status   Status
	message  string
}

// named is the object under the name that it has in the cluster.
func (o *objectRun) named() Object {
	obj := o.Object
	if o.name != "" {
		obj.Name = o.name
	}
	return obj
}

type task struct {
	g *groupRun
	o *objectRun
	n int // the attempt it belongs to
}

type deadline struct {
	g  *groupRun
	o  *objectRun
	n  int
	at time.Duration // active time
}

// Start begins a stage. One stage runs at a time.
func (e *Engine) Start(s Stage) *StageRun {
	r := &StageRun{Stage: s, e: e, byID: map[string]*groupRun{}, applied: make(chan struct{}), done: make(chan struct{})}
	for _, g := range s.Phase.Groups {
		gr := &groupRun{Group: g, status: Waiting, await: s.Await == nil || s.Await(g) || s.Phase.Kind == PhaseRemove, index: make(map[Object]*objectRun, len(g.Objects))}
		for _, o := range g.Objects {
			or := &objectRun{Object: o, status: Waiting}
			gr.objects = append(gr.objects, or)
			gr.index[o] = or
		}
		r.groups = append(r.groups, gr)
		r.byID[g.ID] = gr
	}
	for _, g := range r.groups {
		for _, id := range g.After {
			if before := r.byID[id]; before != nil {
				before.after = append(before.after, g)
				g.left++
			}
		}
	}
	e.post(func() { e.enter(r) })
	return r
}

// Run runs a stage to its end. The error is a *StageError.
func (e *Engine) Run(s Stage) error { return e.Start(s).Wait() }

// Applied waits until every request of the stage was answered, or the stage is
// over; it returns the stage's error in the latter case.
func (r *StageRun) Applied() error {
	select {
	case <-r.applied:
		return nil
	case <-r.done:
		return r.err
	case <-r.e.over:
		return &StageError{Cause: ErrAborted}
	}
}

// Wait waits until the stage is over. The error is a *StageError.
func (r *StageRun) Wait() error {
	select {
	case <-r.done:
		return r.err
	case <-r.e.over:
		return &StageError{Cause: ErrAborted}
	}
}

// enter makes r the stage of the engine.
func (e *Engine) enter(r *StageRun) {
	e.stage, r.era = r, e.era
	e.heartbeat = e.clock.active(time.Now()) + e.opts.Heartbeat
	for _, g := range r.groups {
		g.admit = e.groups[groupKey(r.Phase.Name, g.ID)] == Running
		if !g.admit {
			e.groups[g.ID] = Waiting
		}
	}
}

// set changes the state of a group and tells.
func (r *StageRun) set(g *groupRun, s Status, message string) {
	g.status = s
	r.e.setGroup(r.Phase.Name, g.ID, s, message)
}

func (e *Engine) setGroup(phase, id string, s Status, message string) {
	e.groups[id] = s
	e.groups[groupKey(phase, id)] = s
	e.heartbeat = e.clock.active(time.Now()) + e.opts.Heartbeat
	e.publish(Event{Kind: KindGroup, Phase: phase, Group: id, Status: s, Message: message})
}

// begin starts a group, or starts it again (R44).
func (r *StageRun) begin(g *groupRun) {
	g.attempt++
	g.wave, g.sent, g.pending, g.unready = 0, 0, 0, 0
	for _, o := range g.objects {
		o.answered, o.since = false, time.Time{}
		if o.last.Status == Failed { // only what comes after this attempt counts
			o.last = Observation{}
		}
	}
	r.failures = slices.DeleteFunc(r.failures, func(f *Failure) bool { return f.Group == g.ID })
	if !g.admit || g.attempt > 1 {
		r.set(g, Running, "")
	}
	g.status = Running
	if !g.watched {
		g.watched = true
		r.Cluster.Watch(r.e.ctx, g.Group, func(o Observation) {
			r.e.post(func() { r.observe(g, o) })
		})
	}
	if g.await {
		g.unready = len(g.objects)
	}
	r.send(g)
	r.settle(g)
}

// send queues the requests of the group's present wave where it may start.
func (r *StageRun) send(g *groupRun) {
	for g.wave < len(g.Waves) && g.pending == 0 {
		w := g.Waves[g.wave]
		for _, need := range w.Established {
			if o := g.index[need]; o != nil && !r.doneWith(o) {
				return
			}
		}
		for _, o := range g.objects[g.sent : g.sent+w.Count] {
			r.tasks = append(r.tasks, task{g, o, g.attempt})
			g.pending++
		}
		g.sent += w.Count
		g.wave++
	}
}

// pump sends queued requests while there are free places.
func (r *StageRun) pump() {
	for len(r.tasks) > 0 && r.busy < r.e.opts.Parallel {
		t := r.tasks[0]
		r.tasks = r.tasks[1:]
		if t.n == t.g.attempt && t.g.status == Running {
			r.request(t)
		}
	}
}

func (r *StageRun) request(t task) {
	r.busy++
	call, status := r.Cluster.Apply, Applying
	if r.Phase.Kind == PhaseRemove {
		call, status = r.Cluster.Delete, Deleting
	}
	r.setObject(t.g, t.o, status, "", "")
	ctx := r.e.requests
	go func() {
		out, err := call(ctx, t.g.Group, t.o.Object)
		r.e.post(func() { r.answer(t, out, err) })
	}()
}

// answer takes the API server's answer to a request.
func (r *StageRun) answer(t task, out Outcome, err error) {
	r.busy--
	g, o := t.g, t.o
	if t.n != g.attempt {
		return
	}
	g.pending--
	if err != nil {
		r.setObject(g, o, Failed, oneLine(err.Error()), "")
		r.fail(g, o, err.Error(), false)
		return
	}
	o.answered, o.version, o.name, o.since = true, out.Version, out.Name, time.Now()
	if r.Phase.Kind == PhaseRemove {
		r.answerDelete(g, o, out)
	} else {
		r.setObject(g, o, Applied, "", out.Change)
		if g.await && r.Readiness > 0 {
			r.deadlines = append(r.deadlines, deadline{g, o, g.attempt, r.e.clock.active(o.since) + r.Readiness})
		}
		r.judge(g, o)
	}
	if g.status == Running {
		r.send(g)
		r.settle(g)
	}
}

func (r *StageRun) answerDelete(g *groupRun, o *objectRun, out Outcome) {
	switch {
	case out.Change == Kept:
		r.setObject(g, o, Ready, cmp.Or(out.Message, "kept: helm.sh/resource-policy"), out.Change)
		g.unready--
	case out.Change == Absent, o.last.Status == Gone:
		r.setObject(g, o, Gone, "", out.Change)
		g.unready--
	default:
		r.setObject(g, o, Deleting, o.last.Message, out.Change)
	}
}

// observe takes what the watch has seen of an object.
func (r *StageRun) observe(g *groupRun, seen Observation) {
	o := g.index[seen.Object]
	if o == nil || r.era != r.e.era { // a rollback undoes what the stage did
		return
	}
	o.last = seen
	if !o.answered {
		return
	}
	if r.Phase.Kind == PhaseRemove {
		switch {
		case r.doneWith(o):
		case seen.Status == Gone:
			r.setObject(g, o, Gone, "", "")
			g.unready--
		case seen.Status == Deleting:
			r.setObject(g, o, Deleting, seen.Message, "")
		}
	} else {
		r.judge(g, o)
	}
	if g.status == Running {
		r.send(g)
		r.settle(g)
	}
}

// judge compares what was last seen of an applied object with its apply (R22).
func (r *StageRun) judge(g *groupRun, o *objectRun) {
	seen := o.last
	if seen.Status == "" || seen.Version != 0 && seen.Version < o.version {
		return
	}
	if r.Phase.Kind == PhaseHooks && g.status.Over() {
		return // a hook is left alone once it has run; its delete policy may remove it
	}
	was := o.status
	switch seen.Status {
	case Gone:
		r.setObject(g, o, InProgress, "it is gone from the cluster", "")
	case Deleting:
		r.setObject(g, o, InProgress, "it is being deleted", "")
	default:
		r.setObject(g, o, seen.Status, seen.Message, "")
	}
	if !g.await {
		r.leafReady(g)
		return
	}
	if g.status != Running {
		return
	}
	switch {
	case o.status == Ready && was != Ready:
		g.unready--
	case o.status != Ready && was == Ready:
		g.unready++
	}
	if o.status == Failed {
		r.fail(g, o, o.message, true)
	}
}

// leafReady tells that a group nothing waits for has become ready (R21).
func (r *StageRun) leafReady(g *groupRun) {
	if g.status != Applied {
		return
	}
	for _, o := range g.objects {
		if o.status != Ready {
			return
		}
	}
	r.set(g, Ready, "")
}

// doneWith reports whether nothing is left to wait for of an object.
func (r *StageRun) doneWith(o *objectRun) bool {
	return o.answered && (o.status == Ready || o.status == Gone)
}

// settle ends a group that has all it should.
func (r *StageRun) settle(g *groupRun) {
	if g.status != Running || g.sent < len(g.objects) || g.pending > 0 || g.unready > 0 {
		return
	}
	end := Ready
	switch {
	case r.Phase.Kind == PhaseRemove:
		end = Gone
	case !g.await:
		end = Applied
	}
	r.set(g, end, "")
	for _, next := range g.after {
		next.left--
	}
	if end == Applied {
		r.leafReady(g)
	}
}

// setObject changes the state of an object and tells, where there is news.
func (r *StageRun) setObject(g *groupRun, o *objectRun, s Status, message string, change Change) {
	if o.status == s && o.message == message && change == "" {
		return
	}
	o.status, o.message = s, message
	obj, planned := o.named(), ""
	if o.name != "" {
		planned = o.Name
	}
	r.e.publish(Event{Kind: KindObject, Phase: r.Phase.Name, Group: g.ID, Object: &obj, Planned: planned, Status: s, Message: message, Change: change})
}

// fail ends a group as failed. diagnose asks why the object is not ready.
func (r *StageRun) fail(g *groupRun, o *objectRun, message string, diagnose bool) {
	if g.status != Running {
		return
	}
	message = oneLine(message)
	obj := o.named()
	r.set(g, Failed, obj.String()+": "+message)
	f := &Failure{Group: g.ID, Object: obj, Message: message}
	r.failures = append(r.failures, f)
	if diagnose && r.e.opts.Diagnose != nil {
		r.diagnose(g, f)
	}
	if r.e.opts.HoldOnFailure && r.e.abort == nil && !r.e.timedOut {
		r.e.setRun(Held, g.ID+": "+f.Object.String()+": "+message)
		return
	}
	r.failing = true
}

const diagnoseTimeout = 5 * time.Second

// diagnose looks up why an object is not ready; the stage waits for it.
func (r *StageRun) diagnose(g *groupRun, f *Failure) {
	r.diagnosing++
	ctx, cancel := context.WithTimeout(r.e.ctx, diagnoseTimeout)
	go func() {
		defer cancel()
		summary, lines := r.e.opts.Diagnose(ctx, f.Object)
		r.e.post(func() {
			r.diagnosing--
			if summary == "" && len(lines) == 0 {
				return
			}
			obj := f.Object
			r.e.publish(Event{Kind: KindDiagnosis, Phase: r.Phase.Name, Group: g.ID, Object: &obj, Message: summary, Lines: lines})
			if summary != "" && !strings.Contains(f.Message, summary) {
				f.Message += " — " + summary
			}
		})
	}()
}

// giveUp ends a hold: what failed stays failed (R26).
func (r *StageRun) giveUp() { r.failing = true }

// close ends the stage.
func (r *StageRun) close(cause error) {
	if r.closed {
		return
	}
	r.closed = true
	r.e.stage = nil
	err := &StageError{Cause: cause}
	for _, f := range r.failures {
		err.Failures = append(err.Failures, *f)
	}
	for _, g := range r.groups {
		switch {
		case g.status == Running:
			r.set(g, Aborted, causeText(cause))
		case !g.status.Over():
			err.Skipped = append(err.Skipped, g.ID)
			r.set(g, Skipped, r.whySkipped(g, cause))
		}
	}
	if cause != nil || len(err.Failures) > 0 {
		r.err = err
	}
	close(r.done)
}

func causeText(cause error) string {
	if cause == nil {
		return ""
	}
	return cause.Error()
}

// whySkipped names the failed group that g waits for, directly or not.
func (r *StageRun) whySkipped(g *groupRun, cause error) string {
	seen := map[string]bool{}
	var find func(ids []string) string
	find = func(ids []string) string {
		for _, id := range ids {
			b := r.byID[id]
			if b == nil || seen[id] {
				continue
			}
			seen[id] = true
			if b.status == Failed {
				return id
			}
			if up := find(b.After); up != "" {
				return up
			}
		}
		return ""
	}
	switch up := find(g.After); {
	case up != "":
		return "not started: " + up + " failed"
	case errors.Is(cause, ErrAborted):
		return "not started: the run was aborted"
	case errors.Is(cause, ErrTimeout):
		return "not started: the operation timed out"
	}
	return "not started: the operation failed"
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
