package trace

import (
	"context"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// instruments are the metrics. All durations are in seconds.
type instruments struct {
	run, group, gate, outage               metric.Float64Histogram
	requests, requestRetries, groupRetries metric.Int64Counter
}

// bounds of durations, in seconds.
var bounds = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}

func (i *instruments) create(m metric.Meter) {
	seconds := func(name, about string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		if err != nil { // the names are constants
			h = noop.Float64Histogram{}
		}
		return h
	}
	count := func(name, unit, about string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		if err != nil {
			c = noop.Int64Counter{}
		}
		return c
	}
	i.run = seconds(metricRun, "Duration of a run, from the start of the command.")
	i.group = seconds(metricGroup, "Duration of a group, from its start to its end.")
	i.gate = seconds(metricGate, "Time between the moment when nothing kept a group from starting and its start.")
	i.outage = seconds(metricOutage, "Duration of an outage of the API server.")
	i.requests = count(metricRequests, "{request}", "Requests for objects that the API server has answered.")
	i.requestRetries = count(metricRequestRetries, "{retry}", "Requests for objects that were sent again.")
	i.groupRetries = count(metricGroupRetries, "{retry}", "Groups that were started again after a failure.")
}

// record and add are nothing if no metrics are asked for.
func (i *instruments) record(h metric.Float64Histogram, d time.Duration, labels metric.MeasurementOption) {
	if h != nil {
		h.Record(context.Background(), max(d, 0).Seconds(), labels)
	}
}

func (i *instruments) add(c metric.Int64Counter, labels metric.MeasurementOption) {
	if c != nil {
		c.Add(context.Background(), 1, labels)
	}
}

// metricExporter sends metrics.
type metricExporter struct {
	*client
	temporality sdkmetric.TemporalitySelector
}

func newMetricExporter(c *client) *metricExporter {
	e := &metricExporter{c, sdkmetric.CumulativeTemporalitySelector}
	switch strings.ToLower(os.Getenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE")) {
	case "delta":
		e.temporality = sdkmetric.DeltaTemporalitySelector
	case "lowmemory":
		e.temporality = sdkmetric.LowMemoryTemporalitySelector
	}
	return e
}

func (e *metricExporter) Temporality(k sdkmetric.InstrumentKind) metricdata.Temporality {
	return e.temporality(k)
}

func (e *metricExporter) Aggregation(k sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(k)
}

func (e *metricExporter) ForceFlush(context.Context) error   { return nil }
func (e *metricExporter) Shutdown(ctx context.Context) error { return e.Stop(ctx) }

// Export sends the metrics.
func (e *metricExporter) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	out := &metricspb.ResourceMetrics{SchemaUrl: data.Resource.SchemaURL(), Resource: &resourcepb.Resource{Attributes: keyValues(*data.Resource.Set())}}
	for _, s := range data.ScopeMetrics {
		scope := &metricspb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: s.Scope.Name}}
		for _, m := range s.Metrics {
			scope.Metrics = append(scope.Metrics, protoMetric(m))
		}
		out.ScopeMetrics = append(out.ScopeMetrics, scope)
	}
	if len(out.ScopeMetrics) == 0 {
		return nil
	}
	return e.send(ctx, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{out}})
}

// protoMetric converts a metric of one of the two types that instruments have.
func protoMetric(m metricdata.Metrics) *metricspb.Metric {
	out := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		sum := &metricspb.Sum{AggregationTemporality: protoTemporality(data.Temporality), IsMonotonic: data.IsMonotonic}
		for _, p := range data.DataPoints {
			sum.DataPoints = append(sum.DataPoints, &metricspb.NumberDataPoint{
				Attributes: keyValues(p.Attributes), StartTimeUnixNano: nano(p.StartTime), TimeUnixNano: nano(p.Time), Value: &metricspb.NumberDataPoint_AsInt{AsInt: p.Value},
			})
		}
		out.Data = &metricspb.Metric_Sum{Sum: sum}
	case metricdata.Histogram[float64]:
		histogram := &metricspb.Histogram{AggregationTemporality: protoTemporality(data.Temporality)}
		for _, p := range data.DataPoints {
			histogram.DataPoints = append(histogram.DataPoints, &metricspb.HistogramDataPoint{
				Attributes: keyValues(p.Attributes), StartTimeUnixNano: nano(p.StartTime), TimeUnixNano: nano(p.Time),
				Count: p.Count, Sum: &p.Sum, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
			})
		}
		out.Data = &metricspb.Metric_Histogram{Histogram: histogram}
	}
	return out
}

func protoTemporality(t metricdata.Temporality) metricspb.AggregationTemporality {
	if t == metricdata.DeltaTemporality {
		return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	return metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
}

func nano(t time.Time) uint64 { return uint64(max(t.UnixNano(), 0)) }

// keyValues converts attributes, which are texts and numbers here.
func keyValues(set attribute.Set) (out []*commonpb.KeyValue) {
	for _, kv := range set.ToSlice() {
		value := &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: kv.Value.String()}}
		if kv.Value.Type() == attribute.INT64 {
			value.Value = &commonpb.AnyValue_IntValue{IntValue: kv.Value.AsInt64()}
		}
		out = append(out, &commonpb.KeyValue{Key: string(kv.Key), Value: value})
	}
	return out
}
