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
	clients map[string]*client // by signal
	stops   []func(context.Context) error
	parent  context.Context // the span in TRACEPARENT

	mu     sync.Mutex
	start  time.Time       // of the command, for the first run
	root   context.Context // the span of the run
	run    *run            // nil between two runs
	called map[event.Unit]int
}

// Start returns a Recorder for a command that began at a time, nil if the environment does not ask for one. version is that of
// lockstep.
func Start(version string, start time.Time) (*Recorder, error) {
	spansTo, err := traces.endpoint()
	metricsTo, errMetrics := metrics.endpoint()
	if err := errors.Join(err, errMetrics); err != nil || spansTo == nil && metricsTo == nil {
		return nil, err
	}
	otel.SetLogger(logr.Discard()) // they would print on the screen
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	about, err := describe(version)
	if err != nil {
		return nil, err
	}
	r := &Recorder{tracer: noop.NewTracerProvider().Tracer(""), clients: map[string]*client{}, start: start, called: map[event.Unit]int{}}
	if spansTo != nil {
		c := newClient(spansTo)
		exporter, err := otlptrace.New(context.Background(), c)
		if err != nil {
			return nil, err
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithIDGenerator(ids{}), sdktrace.WithBatcher(exporter, batching()...))
		r.clients["traces"], r.tracer = c, provider.Tracer(scope)
		r.stops = append(r.stops, provider.Shutdown)
	}
	if metricsTo != nil {
		c := newClient(metricsTo)
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(newMetricExporter(c))))
		r.clients["metrics"] = c
		r.meters.create(provider.Meter(scope))
		r.stops = append(r.stops, provider.Shutdown)
	}
	r.parent = propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{
		"traceparent": os.Getenv("TRACEPARENT"), "tracestate": os.Getenv("TRACESTATE"),
	})
	r.open()
	return r, nil
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

// open starts the span of a run, which gets its name with the first event.
func (r *Recorder) open() {
	r.root, _ = r.tracer.Start(r.parent, "lockstep", oteltrace.WithTimestamp(r.start))
}

// Environ returns the variables that make a program of the run a part of its trace: the program of a hook, by its unit.
func (r *Recorder) Environ(u event.Unit) []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := oteltrace.SpanContextFromContext(r.root)
	if !of.IsValid() {
		return nil
	}
	r.called[u]++
	carrier := propagation.MapCarrier{}
	ctx := oteltrace.ContextWithSpanContext(context.Background(), of.WithSpanID(unitID(of, u, r.called[u])))
	propagation.TraceContext{}.Inject(ctx, carrier)
	return []string{"TRACEPARENT=" + carrier["traceparent"], "TRACESTATE=" + carrier["tracestate"]}
}

// Retried counts a request that is sent again.
func (r *Recorder) Retried() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil {
		r.meters.add(r.meters.requestRetries, r.run.labels())
	}
}

// Close ends open spans and sends the rest. It waits at most flushTimeout, and not at all for a receiver that has not answered
// before. Its error says what could not be sent; it has no credentials.
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
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var sent sync.WaitGroup
	for _, stop := range r.stops {
		sent.Go(func() { _ = stop(ctx) }) // the clients know why
	}
	for _, c := range r.clients {
		if c.hangs() {
			cancel()
		}
		close(c.closing)
	}
	sent.Wait()
	var errs []error
	for name, c := range r.clients {
		if err := c.failure(); err != nil {
			errs = append(errs, fmt.Errorf("%s were not sent to %s: %w", name, c.to.url.Host, err))
		}
	}
	return errors.Join(errs...)
}

// ids makes random IDs, except for the spans of units, see Environ.
type ids struct{}

type idKey struct{}

// withID returns a context in which the next span has an ID.
func withID(ctx context.Context, id oteltrace.SpanID) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// withoutID returns a context in which the next spans have random IDs.
func withoutID(ctx context.Context) context.Context { return context.WithValue(ctx, idKey{}, nil) }

func (ids) NewIDs(context.Context) (trace oteltrace.TraceID, span oteltrace.SpanID) {
	binary.BigEndian.PutUint64(trace[:8], rand.Uint64())
	binary.BigEndian.PutUint64(trace[8:], rand.Uint64()|1) // not 0, which is invalid
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	return trace, span
}

func (ids) NewSpanID(ctx context.Context, _ oteltrace.TraceID) (span oteltrace.SpanID) {
	if id, ok := ctx.Value(idKey{}).(oteltrace.SpanID); ok {
		return id
	}
	binary.BigEndian.PutUint64(span[:], rand.Uint64()|1)
	return span
}

// unitID returns the ID of the span of an attempt at a unit of the run with a root.
func unitID(root oteltrace.SpanContext, u event.Unit, attempt int) oteltrace.SpanID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %q %q %d", root.TraceID(), root.SpanID(), u.Phase, u.Group, attempt))
	return oteltrace.SpanID(sum[:8])
}
