package trace

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/ui/report/format"
)

// unit is an attempt at a group: its span has one child after the other, waiting, applying and becoming ready, and one for each
// object.
type unit struct {
	ctx     context.Context
	attempt int
	stage   oteltrace.Span                 // the open child
	objects map[plan.Object]oteltrace.Span // the open ones
	// answered are the objects for which the API server has answered the request.
	answered map[plan.Object]bool
	ended    bool
	// failedAt is when the group failed. Its span stays open until it is retried or the run ends, because a diagnosis may follow.
	failedAt time.Time
}

func (u *unit) span() oteltrace.Span { return oteltrace.SpanFromContext(u.ctx) }

func (u *unit) open() bool { return u != nil && !u.ended && u.failedAt.IsZero() }

// end ends the spans of the unit, when it failed or at a time.
func (u *unit) end(at time.Time) {
	if u.ended {
		return
	}
	if !u.failedAt.IsZero() {
		at = u.failedAt
	}
	u.endStage(at)
	u.span().End(oteltrace.WithTimestamp(at))
	u.ended = true
}

func (u *unit) endStage(at time.Time) {
	for _, o := range u.objects {
		o.End(oteltrace.WithTimestamp(at))
	}
	u.stage.End(oteltrace.WithTimestamp(at))
}

// enter ends the current stage of a unit and starts the next one.
func (r *run) enter(u *unit, name string, at time.Time) {
	if u.stage != nil {
		u.stage.End(oteltrace.WithTimestamp(at))
	}
	_, u.stage = r.tracer.Start(u.ctx, name, oteltrace.WithTimestamp(at))
}

// group follows the state of a group.
func (r *run) group(e event.Event) {
	g := r.state.Find(e.Phase, e.Group)
	if g == nil {
		return
	}
	if r.phases[e.Phase].IsZero() {
		r.phases[e.Phase] = e.Time
	}
	u := r.units[g.Unit()]
	switch {
	case e.Status == event.Running && !u.open():
		u = r.begin(g, e.Time)
		r.enter(u, r.working(g), e.Time)
	case e.Status.Over() && u == nil: // skipped
		u = r.begin(g, e.Time)
	}
	if e.Status.Over() && u.open() {
		r.finish(u, g, e)
	}
}

// begin opens the span of a group that starts or is skipped. The first attempt has waited since the start of its phase.
func (r *run) begin(g *event.GroupState, at time.Time) *unit {
	previous, since := r.units[g.Unit()], r.phases[g.Phase]
	u := &unit{attempt: 1, objects: map[plan.Object]oteltrace.Span{}, answered: map[plan.Object]bool{}}
	about := []attribute.KeyValue{attribute.String(keyPhase, g.Phase), attribute.String(keyGroup, g.ID), attribute.Int(keyLayer, g.Layer)}
	var links []oteltrace.Link
	for _, id := range g.After {
		if before := r.units[event.Unit{Phase: g.Phase, Group: id}]; before != nil {
			links = append(links, oteltrace.Link{SpanContext: before.span().SpanContext(), Attributes: known(attribute.String(keyGroup, id), attribute.String(keyMessage, g.Why[id]))})
		}
	}
	if previous != nil {
		u.attempt, since = previous.attempt+1, at
		links = append(links, oteltrace.Link{SpanContext: previous.span().SpanContext(), Attributes: []attribute.KeyValue{attribute.Int(keyAttempt, previous.attempt)}})
		if !previous.failedAt.IsZero() {
			previous.end(at)
			r.meters.add(r.meters.groupRetries, r.labels(attribute.String(keyGroup, g.ID), attribute.String(keyPhase, g.Phase)))
		}
	}
	parent := r.ctx
	if event.IsRollback(g.Phase) && r.rollback != nil {
		parent = r.rollbackCtx
	}
	if !r.release && g.Status == event.Running {
		r.begun[g.Unit()]++ // an edited revision has the same units again
		parent = withID(parent, r.unitID(g.Unit(), r.begun[g.Unit()]))
	}
	u.ctx, _ = r.tracer.Start(parent, format.GroupTitle(r.state, g), oteltrace.WithTimestamp(since), oteltrace.WithLinks(links...), oteltrace.WithAttributes(append(about, attribute.Int(keyAttempt, u.attempt))...))
	u.ctx = withoutID(u.ctx)
	r.units[g.Unit()] = u
	r.enter(u, spanWaiting, since)
	if previous == nil && g.Status == event.Running {
		r.meters.record(r.meters.gate, at.Sub(r.free(g)), r.labels(attribute.String(keyGroup, g.ID), attribute.String(keyPhase, g.Phase)))
	}
	return u
}

// free returns when nothing kept a group from starting any more.
func (r *run) free(g *event.GroupState) time.Time {
	since := r.phases[g.Phase]
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	for _, id := range g.After {
		if before := r.state.Find(g.Phase, id); before != nil {
			later(before.Ended)
		}
	}
	for _, o := range g.Outside {
		later(o.Since)
	}
	return since
}

// finish ends the span of a group.
func (r *run) finish(u *unit, g *event.GroupState, e event.Event) {
	span := u.span()
	span.SetAttributes(attribute.String(keyStatus, string(g.Status)))
	if g.Skip != nil {
		span.SetAttributes(known(attribute.String(keySkip, string(g.Skip.By)))...)
	}
	if g.Status == event.Failed {
		u.endStage(e.Time)
		u.failedAt = e.Time
		r.explain(u, g)
	} else {
		u.end(e.Time)
	}
	if !g.Started.IsZero() {
		r.meters.record(r.meters.group, e.Time.Sub(g.Started), r.labels(
			attribute.String(keyGroup, g.ID), attribute.String(keyPhase, g.Phase), attribute.String(keyStatus, string(g.Status))))
	}
}

// explain makes the span of a failed group an error, with what is known of its cause.
func (r *run) explain(u *unit, g *event.GroupState) {
	roots := r.state.Roots()
	why := event.Root{Cause: cmp.Or(g.Cause, g.Message), Evidence: g.Evidence, Timeout: g.Timeout}
	if i := slices.IndexFunc(roots, func(root event.Root) bool { return root.Group == g }); i >= 0 {
		why = roots[i]
	}
	fail(u.span(), why, why.Cause, event.Failed)
}

// diagnosis adds what is found about a group after it has failed.
func (r *run) diagnosis(e event.Event) {
	if g := r.state.Find(e.Phase, e.Group); g != nil && g.Status == event.Failed {
		if u := r.units[g.Unit()]; u != nil && !u.ended {
			r.explain(u, g)
		}
	}
}

// object follows the state of an object.
func (r *run) object(e event.Event) {
	g := r.state.Find(e.Phase, e.Group)
	if g == nil || e.Object == nil {
		return
	}
	u, o := r.units[g.Unit()], g.Find(*e.Object)
	if !u.open() || o == nil || e.Outside || r.state.Operation.IsStack() { // the objects of a stack are its releases and hooks
		return
	}
	span := u.objects[o.Object]
	if span == nil && e.Status != event.Waiting && (e.Status == event.Applying || e.Status == event.Deleting || !u.answered[o.Object]) {
		_, span = r.tracer.Start(u.ctx, o.Object.String(), oteltrace.WithTimestamp(e.Time), oteltrace.WithAttributes(known(
			attribute.String(keyAPIGroup, o.Object.Group), attribute.String(keyKind, o.Object.Kind),
			attribute.String(keyNamespace, o.Object.Namespace), attribute.String(keyName, o.Object.Name))...))
		u.objects[o.Object] = span
	}
	if span == nil {
		return
	}
	if e.Change != "" {
		span.SetAttributes(attribute.String(keyChange, string(e.Change)))
		r.meters.add(r.meters.requests, r.labels(attribute.String(keyChange, string(e.Change)), attribute.String(keyKind, o.Object.Kind)))
		if u.answered[o.Object] = true; len(u.answered) == len(g.Objects) && r.working(g) == spanApplying {
			r.enter(u, spanReady, e.Time)
		}
	}
	switch e.Status {
	case event.Ready, event.Gone:
		span.SetAttributes(known(attribute.String(keyReadyBy, string(e.ReadyBy)), attribute.String(keyMessage, text.Join("; ", e.Message, e.Note)))...)
	case event.Failed:
		fail(span, event.Root{Object: o, Cause: cmp.Or(o.Cause, o.Message), Evidence: o.Evidence}, cmp.Or(o.Cause, o.Message), event.Failed)
	default:
		return
	}
	span.SetAttributes(attribute.String(keyStatus, string(e.Status)))
	span.End(oteltrace.WithTimestamp(e.Time))
	delete(u.objects, o.Object)
	u.answered[o.Object] = true
}

// working returns the name of the stage in which the requests of a group are sent.
func (r *run) working(g *event.GroupState) string {
	if format.Removes(r.state, g.Phase) {
		return spanDeleting
	}
	return spanApplying
}
