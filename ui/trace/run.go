package trace

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	oteltrace "go.opentelemetry.io/otel/trace"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
)

// run is an operation, of a whole run or of one release of a stack.
type run struct {
	*Recorder
	state *event.State
	ctx   context.Context // the span of the run, or of the release in its stack
	// releases are the runs of a stack's releases, by scope. release is set in those.
	releases map[string]*run
	release  bool

	units  map[event.Unit]*unit
	phases map[string]time.Time // when they started
	// rollback, stop and away are open spans, or nil: the rollback, a pause or a hold, an outage.
	rollback, stop, away oteltrace.Span
	rollbackCtx          context.Context
	awaySince            time.Time
}

// Consume adds an event to the trace of its run. The events of a Recorder are those of one run after the other.
func (r *Recorder) Consume(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run == nil {
		if r.root == nil && (e.Kind != event.KindOperation || e.Status != event.Running) { // after the end
			return
		}
		if r.root == nil { // another run of the same command
			r.first = first{start: e.Time, began: e.Time}
			clear(r.begun)
			clear(r.called)
			r.open()
		}
		_, prepare := r.tracer.Start(r.root, spanPrepare, oteltrace.WithTimestamp(r.start))
		prepare.End(oteltrace.WithTimestamp(e.Time))
		r.run = r.newRun(&event.State{}, r.root)
	}
	r.run.state.Apply(e)
	of := r.run
	if e.Scope != "" {
		of = r.run.of(e.Scope)
	}
	of.consume(e)
	if !r.run.state.Ended.IsZero() && e.Scope == "" {
		r.run.end(e.Time)
		r.run, r.root = nil, nil
	}
}

func (r *Recorder) newRun(s *event.State, ctx context.Context) *run {
	return &run{Recorder: r, state: s, ctx: ctx, releases: map[string]*run{}, units: map[event.Unit]*unit{}, phases: map[string]time.Time{}}
}

// of returns the run of a release, whose span is that of its group.
func (r *run) of(scope string) *run {
	if r.releases[scope] == nil {
		r.releases[scope] = r.newRun(r.state.Scopes[scope], r.ctx)
		r.releases[scope].release = true
	}
	release := r.releases[scope]
	for u, unit := range r.units {
		if u.Group == scope && unit.open() {
			release.ctx = unit.ctx
		}
	}
	return release
}

// consume adds an event of the run, without its scope.
func (r *run) consume(e event.Event) {
	switch e.Kind {
	case event.KindOperation:
		r.operation(e)
	case event.KindGroup:
		r.group(e)
	case event.KindObject:
		r.object(e)
	case event.KindDiagnosis:
		r.diagnosis(e)
	case event.KindRun:
		r.steered(e)
	case event.KindServer:
		r.server(e)
	case event.KindWarning:
		about := known(attribute.String(keyMessage, e.Message), attribute.String(keyRule, e.Rule))
		if e.Object != nil {
			about = append(about, attribute.String(keyObject, e.Object.String()))
		}
		r.add(e.Time, eventWarning, about)
	case event.KindCommand:
		if e.Status == event.Accepted && e.Answers != event.InternalID {
			r.add(e.Time, eventCommand, known(attribute.String(keyCommand, string(e.Command)), attribute.String(keyGroup, e.Group), attribute.String(keyBy, e.By)))
		}
	}
}

// add adds an event to the span of the run.
func (r *run) add(at time.Time, name string, about []attribute.KeyValue) {
	oteltrace.SpanFromContext(r.ctx).AddEvent(name, oteltrace.WithTimestamp(at), oteltrace.WithAttributes(about...))
}

// operation starts a run, its rollback or an edited revision, or ends the run.
func (r *run) operation(e event.Event) {
	span := oteltrace.SpanFromContext(r.ctx)
	switch e.Status {
	case event.Running:
		r.endUnits(e.Time)
		clear(r.units)
		clear(r.phases)
		if !r.release {
			span.SetName(r.state.Operation.Title())
		}
		span.SetAttributes(r.about(r.state.Operation)...)
	case event.RollingBack:
		r.endSpan(&r.rollback, e.Time)
		r.rollbackCtx, r.rollback = r.tracer.Start(r.ctx, spanRollback, oteltrace.WithTimestamp(e.Time))
		if e.Operation != nil {
			r.rollback.SetAttributes(attribute.String(keyOperation, e.Operation.Name))
		}
	default:
		if !r.release {
			span.SetName(r.state.Operation.Title())
		}
		span.SetAttributes(r.about(r.state.Operation)...)
		r.outcome(span)
		if r.release {
			r.end(e.Time)
		}
	}
}

// about returns the attributes of an operation.
func (r *run) about(o event.Operation) []attribute.KeyValue {
	about := known(
		attribute.String(keyOperation, o.Name), attribute.String(keyRelease, o.Release), attribute.String(keyNamespace, o.Namespace),
		attribute.String(keyContext, o.Context), attribute.String(keyChart, o.Chart),
	)
	if o.Revision > 0 {
		about = append(about, attribute.Int(keyRevision, o.Revision))
	}
	return about
}

// outcome describes how the run ended in its span.
func (r *run) outcome(span oteltrace.Span) {
	s := r.state
	span.SetAttributes(known(attribute.String(keyStatus, string(s.Status)), attribute.String(keyOutcome, s.Outcome))...)
	if !r.release {
		span.SetAttributes(attribute.Int(keyExit, s.Exit))
	}
	if s.Status == event.Succeeded {
		return
	}
	fail(span, s.FirstRoot(), phrase.Reason(s), s.Status)
}

// end ends the run's spans.
func (r *run) end(at time.Time) {
	for _, release := range r.releases {
		release.end(at)
	}
	r.endUnits(at)
	for _, span := range []*oteltrace.Span{&r.rollback, &r.stop, &r.away} {
		r.endSpan(span, at)
	}
	if r.release {
		return
	}
	oteltrace.SpanFromContext(r.ctx).End(oteltrace.WithTimestamp(at))
	r.meters.record(r.meters.run, at.Sub(r.began), r.labels(attribute.String(keyStatus, string(r.state.Status))))
}

func (r *run) endUnits(at time.Time) {
	for _, u := range r.units {
		u.end(at)
	}
}

func (r *run) endSpan(span *oteltrace.Span, at time.Time) {
	if *span != nil {
		(*span).End(oteltrace.WithTimestamp(at))
		*span = nil
	}
}

// labels returns the attributes of a metric of the run.
func (r *run) labels(more ...attribute.KeyValue) metric.MeasurementOption {
	o := r.state.Operation
	return metric.WithAttributes(append(known(
		attribute.String(keyOperation, o.Name), attribute.String(keyRelease, o.Release), attribute.String(keyNamespace, o.Namespace),
	), known(more...)...)...)
}

// steered opens a span while the run is paused or held.
func (r *run) steered(e event.Event) {
	r.endSpan(&r.stop, e.Time)
	name := map[event.Status]string{event.Paused: spanPaused, event.Held: spanHeld}[e.Status]
	if e.Code == event.Unapproved {
		name = spanApproval
	}
	if name == "" {
		return
	}
	about := known(attribute.String(keyMessage, e.Message), attribute.String(keyGroup, e.Group))
	if e.Origin != nil {
		about = append(about, known(attribute.String(keyCommand, string(e.Origin.Command)), attribute.String(keyBy, e.Origin.By))...)
	}
	_, r.stop = r.tracer.Start(r.ctx, name, oteltrace.WithTimestamp(e.Time), oteltrace.WithAttributes(about...))
}

// server opens a span while the API server is unreachable.
func (r *run) server(e event.Event) {
	switch {
	case e.Status == event.Away && r.away == nil:
		since := e.Since
		if since.IsZero() {
			since = e.Time
		}
		_, r.away = r.tracer.Start(r.ctx, spanUnreachable, oteltrace.WithTimestamp(since), oteltrace.WithAttributes(attribute.String(keyMessage, e.Message)))
		r.awaySince = since
	case e.Status == event.Back && r.away != nil:
		r.endSpan(&r.away, e.Time)
		r.meters.record(r.meters.outage, e.Time.Sub(r.awaySince), r.labels())
	}
}

// fail makes a span an error, with the facts of its cause.
func fail(span oteltrace.Span, why event.Root, reason string, status event.Status) {
	kind := errorFailed
	switch {
	case status == event.Aborted:
		kind = errorAborted
	case why.Timeout != nil:
		kind = errorTimeout
	}
	about := known(attribute.String(keyErrorType, kind), attribute.String(keyCause, why.Cause))
	if len(why.Evidence) > 0 {
		about = append(about, attribute.StringSlice(keyEvidence, why.Evidence))
	}
	if why.Timeout != nil {
		about = append(about, attribute.String(keyTimeout, why.Timeout.Flag+" "+why.Timeout.After.String()))
	}
	if why.Object != nil {
		about = append(about, attribute.String(keyObject, why.Object.Object.String()))
		if d := why.Object.Details; d != nil {
			about = append(about, known(attribute.String(keyPod, d.Pod), attribute.String(keyContainer, d.Container))...)
			if d.ExitCode != nil {
				about = append(about, attribute.Int(keyContainerExit, *d.ExitCode))
			}
		}
	}
	span.SetStatus(codes.Error, reason)
	span.SetAttributes(about...)
}

// known returns the attributes that are not "".
func known(all ...attribute.KeyValue) (kept []attribute.KeyValue) {
	for _, kv := range all {
		if kv.Value.Type() != attribute.STRING || kv.Value.AsString() != "" {
			kept = append(kept, kv)
		}
	}
	return kept
}
