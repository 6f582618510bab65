// Package trace makes OpenTelemetry spans and metrics from the events of a run, and sends them where the standard environment
// variables say. The central type is Recorder. Only ui/cli imports it; it imports neither kube nor the screen.
package trace

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"lockstep/engine/event"
)

const (
	// flushTimeout limits how long Close waits.
	flushTimeout = time.Second
	// Spans that wait to be sent, and spans per request: a group of 10,000 objects may be ready at once.
	queueSize = 1 << 15
	batchSize = 2048
)

// Recorder makes a trace of each run whose events it consumes, one after the other.
type Recorder struct {
	tracer  oteltrace.Tracer
	meters  instruments
	senders []sender
	traces  bool            // whether spans are sent
	parent  context.Context // the span in TRACEPARENT
	salt    uint64          // makes the IDs of units differ from those of another process with the same root

	mu sync.Mutex
	first
	root context.Context // the span of the run
	run  *run            // nil between two runs
	// begun and called count the attempts at units, as their events and as Environ tell them.
	begun, called map[event.Unit]int
}

// first is how a run begins.
type first struct {
	job   string    // see Start, "" for other runs of the same command
	start time.Time // of the command, or of the next run
	began time.Time // start, or that of an earlier pod of the job
}

// sender sends the data of one signal.
type sender struct {
	signal string
	*client
	shutdown func(context.Context) error
}

// Start returns a Recorder for a command that began at a time, nil if the environment does not ask for one. Its error says what is
// not sent or not obeyed; the Recorder sends the rest. version is that of lockstep. All pods of a job have the same span of the run, so that they
// make one trace; "" outside of a Job.
func Start(version, job string, start time.Time) (*Recorder, error) {
	spansTo, errTraces := traces.endpoint()
	metricsTo, errMetrics := metrics.endpoint()
	refused := errors.Join(without("traces", errTraces), without("metrics", errMetrics))
	if spansTo == nil && metricsTo == nil {
		return nil, refused
	}
	otel.SetLogger(logr.Discard()) // they would print on the screen
	quiet := otel.ErrorHandlerFunc(func(error) {})
	otel.SetErrorHandler(quiet)
	about, err := describe(version)
	if err != nil {
		return nil, without("traces, no metrics", err)
	}
	r := &Recorder{
		tracer: noop.NewTracerProvider().Tracer(""), traces: spansTo != nil, salt: rand.Uint64(), first: first{job, start, start},
		begun: map[event.Unit]int{}, called: map[event.Unit]int{},
	}
	if spansTo != nil {
		c := newClient(spansTo)
		exporter, err := otlptrace.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { // the SDK refuses only this variable
			refused = errors.Join(refused, fmt.Errorf("OTEL_TRACES_SAMPLER: %w; the default applies", err))
		}))
		provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithIDGenerator(ids{}), sdktrace.WithBatcher(exporter, batching()...))
		otel.SetErrorHandler(quiet)
		r.tracer = provider.Tracer(scope)
		r.senders = append(r.senders, sender{"traces", c, provider.Shutdown})
	}
	if metricsTo != nil {
		c := newClient(metricsTo)
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(newMetricExporter(c))))
		r.meters.create(provider.Meter(scope))
		r.senders = append(r.senders, sender{"metrics", c, provider.Shutdown})
	}
	r.parent = propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{
		"traceparent": os.Getenv(parentVar), "tracestate": os.Getenv(stateVar),
	})
	r.open()
	return r, refused
}

func without(signal string, err error) error {
	if err != nil {
		err = fmt.Errorf("no %s: %w", signal, err)
	}
	return err
}

// scope is the name of the instrumentation scope.
const scope = "lockstep"

// describe returns the resource of all spans and metrics. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
func describe(version string) (*resource.Resource, error) {
	about, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "lockstep"), attribute.String("service.version", version),
		attribute.String("service.instance.id", fmt.Sprintf("%016x", rand.Uint64())),
	), resource.WithFromEnv())
	if err != nil {
		return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not a list KEY=VALUE,KEY=VALUE") // the error has the values
	}
	return about, nil
}

// batching returns the sizes of the queue, unless the environment sets them.
func batching() (options []sdktrace.BatchSpanProcessorOption) {
	if os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE") == "" && os.Getenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") == "" {
		options = append(options, sdktrace.WithMaxQueueSize(queueSize), sdktrace.WithMaxExportBatchSize(batchSize))
	}
	return options
}

// Continue says that an earlier pod of the job began the run at a time, which is when its span starts. It comes before the first
// event.
func (r *Recorder) Continue(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = began
	r.open()
}

// open starts the span of a run, which gets its name with the first event.
func (r *Recorder) open() {
	parent := r.parent
	if r.job != "" {
		sum := sha256.Sum256([]byte(r.job))
		parent = withID(context.WithValue(parent, traceKey{}, oteltrace.TraceID(sum[:16])), oteltrace.SpanID(sum[16:24]))
	}
	root, _ := r.tracer.Start(parent, "lockstep", oteltrace.WithTimestamp(r.began))
	r.root = withoutID(root)
}

// The variables of a span that programs have in common.
const (
	parentVar = "TRACEPARENT"
	stateVar  = "TRACESTATE"
)

// Environ returns the variables that make a program of the run a part of its trace: the program of a hook, by its unit. Without
// spans of lockstep, it is a part of the trace that lockstep is called in.
func (r *Recorder) Environ(u event.Unit) map[string]string {
	if r == nil || !r.traces {
		if os.Getenv(parentVar) == "" {
			return nil
		}
		return map[string]string{parentVar: os.Getenv(parentVar), stateVar: os.Getenv(stateVar)}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := oteltrace.SpanContextFromContext(r.root)
	if !of.IsValid() {
		return nil
	}
	r.called[u]++
	carrier := propagation.MapCarrier{}
	ctx := oteltrace.ContextWithSpanContext(context.Background(), of.WithSpanID(r.unitID(u, r.called[u])))
	propagation.TraceContext{}.Inject(ctx, carrier)
	return map[string]string{parentVar: carrier["traceparent"], stateVar: carrier["tracestate"]}
}

// Retried counts a request that is sent again.
func (r *Recorder) Retried() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil {
		r.meters.add(r.meters.requestRetries, r.run.labels())
	}
}

// Close ends open spans and sends the rest. It waits at most flushTimeout, and not at all for a receiver that did not answer the
// last request. Its error says what could not be sent; it has no credentials.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if r.run != nil {
		r.run.end(r.run.state.Now)
		r.run = nil
	} else if r.root != nil { // no run started
		oteltrace.SpanFromContext(r.root).End()
	}
	r.root = nil
	r.mu.Unlock()
	var sent sync.WaitGroup
	for _, s := range r.senders {
		sent.Go(s.close)
	}
	sent.Wait()
	var unsent []string
	for _, s := range r.senders {
		if err := s.failure(); err != nil {
			unsent = append(unsent, fmt.Sprintf("%s were not sent to %s: %v", s.signal, s.to.url.Host, err))
		}
	}
	if len(unsent) == 0 {
		return nil
	}
	return errors.New(strings.Join(unsent, "; "))
}

func (s sender) close() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if s.hangs() {
		cancel()
	}
	s.Close()
	_ = s.shutdown(ctx) // the client knows why
}

// ids makes random IDs, except for the spans of units, see Environ.
type ids struct{}

type idKey struct{}

// withID returns a context in which the next span has an ID.
func withID(ctx context.Context, id oteltrace.SpanID) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// traceKey is the key of the ID of a trace that begins.
type traceKey struct{}

// withoutID returns a context in which the next spans have random IDs.
func withoutID(ctx context.Context) context.Context { return context.WithValue(ctx, idKey{}, nil) }

func (ids) NewIDs(ctx context.Context) (trace oteltrace.TraceID, span oteltrace.SpanID) {
	trace, ok := ctx.Value(traceKey{}).(oteltrace.TraceID)
	if !ok {
		binary.BigEndian.PutUint64(trace[:8], rand.Uint64())
		binary.BigEndian.PutUint64(trace[8:], rand.Uint64()|1) // not 0, which is invalid
	}
	return trace, ids{}.NewSpanID(ctx, trace)
}

func (ids) NewSpanID(ctx context.Context, _ oteltrace.TraceID) (span oteltrace.SpanID) {
	if id, ok := ctx.Value(idKey{}).(oteltrace.SpanID); ok {
		return id
	}
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	return span
}

// unitID returns the ID of the span of an attempt at a unit of the run.
func (r *Recorder) unitID(u event.Unit, attempt int) oteltrace.SpanID {
	root := oteltrace.SpanContextFromContext(r.root)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %x %q %q %d", root.TraceID(), root.SpanID(), r.salt, u.Phase, u.Group, attempt))
	return oteltrace.SpanID(sum[:8])
}
