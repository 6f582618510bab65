// Package receiver receives OTLP traces and metrics, over HTTP and gRPC, and notices, for tests. The central type is Receiver. Only tests import it.
package receiver

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Receiver keeps what it receives.
type Receiver struct {
	*httptest.Server
	// Before, if set, is called with each request. If it returns a status, that is the answer.
	Before func(*http.Request) (status int)

	mu       sync.Mutex
	traces   []*tracepb.ResourceSpans
	metrics  []*metricspb.ResourceMetrics
	headers  []http.Header
	notices  []string
	received bytes.Buffer
	errs     []error
}

// NoticesPath is where a Receiver takes notices.
const NoticesPath = "/notices"

// Notices returns the bodies of the notices received so far.
func (r *Receiver) Notices() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notices)
}

// Start starts a receiver on a free port of this machine. Close ends it.
func Start() *Receiver {
	r := &Receiver{}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.Protocols = new(http.Protocols)
	r.Config.Protocols.SetHTTP1(true)
	r.Config.Protocols.SetUnencryptedHTTP2(true)
	r.Server.Start()
	return r
}

// ServeHTTP receives a request.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if r.Before != nil {
		if status := r.Before(req); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	grpc := req.Header.Get("Content-Type") == "application/grpc"
	if err == nil {
		err = r.keep(req, body, grpc)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s: %w", req.URL.Path, err))
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if grpc {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(make([]byte, 5)) // an empty message
		w.Header().Set("Grpc-Status", "0")
	}
}

// keep decodes a body: with gRPC a message of one frame.
func (r *Receiver) keep(req *http.Request, body []byte, grpc bool) error {
	compressed := req.Header.Get("Content-Encoding") == "gzip"
	if grpc {
		if req.ProtoMajor != 2 || req.Header.Get("Te") != "trailers" || len(body) < 5 || int(binary.BigEndian.Uint32(body[1:5])) != len(body)-5 {
			return errors.New("not a unary gRPC call")
		}
		compressed = body[0] == 1 && req.Header.Get("Grpc-Encoding") == "gzip"
		body = body[5:]
	}
	if compressed {
		unzipped, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(unzipped); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received.Write(body)
	r.headers = append(r.headers, req.Header)
	switch path := req.URL.Path; {
	case path == NoticesPath:
		r.notices = append(r.notices, string(body))
		return nil
	case strings.HasSuffix(path, "/v1/traces"), path == "/opentelemetry.proto.collector.trace.v1.TraceService/Export":
		data := &tracepb.TracesData{}
		err := proto.Unmarshal(body, data)
		r.traces = append(r.traces, data.ResourceSpans...)
		return err
	case strings.HasSuffix(path, "/v1/metrics"), path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export":
		data := &metricspb.MetricsData{}
		err := proto.Unmarshal(body, data)
		r.metrics = append(r.metrics, data.ResourceMetrics...)
		return err
	}
	return errors.New("unknown path")
}

// Spans returns the spans received so far, by start.
func (r *Receiver) Spans() (all []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range r.traces {
		for _, s := range of.ScopeSpans {
			all = append(all, s.Spans...)
		}
	}
	slices.SortStableFunc(all, func(a, b *tracepb.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	return all
}

// Metrics returns the metrics received last, by name.
func (r *Receiver) Metrics() map[string]*metricspb.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]*metricspb.Metric{}
	for _, of := range r.metrics {
		for _, s := range of.ScopeMetrics {
			for _, m := range s.Metrics {
				all[m.Name] = m
			}
		}
	}
	return all
}

// Resource returns the attributes of the resource of the first spans.
func (r *Receiver) Resource() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	if len(r.traces) > 0 {
		for _, kv := range r.traces[0].Resource.Attributes {
			all[kv.Key] = kv.Value.GetStringValue()
		}
	}
	return all
}

// Received returns the bytes of all messages, uncompressed, and the headers.
func (r *Receiver) Received() (body []byte, headers []http.Header, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.received.Bytes()), slices.Clone(r.headers), errors.Join(r.errs...)
}

// Root returns the first span without a parent.
func Root(all []*tracepb.Span) *tracepb.Span {
	return all[slices.IndexFunc(all, func(s *tracepb.Span) bool { return len(s.ParentSpanId) == 0 })]
}

// Children returns the spans below a span, by start.
func Children(all []*tracepb.Span, of *tracepb.Span) (found []*tracepb.Span) {
	for _, s := range all {
		if bytes.Equal(s.ParentSpanId, of.SpanId) {
			found = append(found, s)
		}
	}
	return found
}

// Named returns the first span with a name, nil if there is none.
func Named(all []*tracepb.Span, name string) *tracepb.Span {
	if i := slices.IndexFunc(all, func(s *tracepb.Span) bool { return s.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Tree draws the spans below a span, one per line.
func Tree(all []*tracepb.Span, of *tracepb.Span, indent string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s\n", indent, of.Name)
	for _, s := range Children(all, of) {
		b.WriteString(Tree(all, s, indent+"  "))
	}
	return b.String()
}

// Attribute returns an attribute of a span as text.
func Attribute(s *tracepb.Span, key string) string {
	for _, kv := range s.Attributes {
		if kv.Key != key {
			continue
		}
		if n := kv.Value.GetIntValue(); n != 0 {
			return fmt.Sprint(n)
		}
		var texts []string
		for _, v := range kv.Value.GetArrayValue().GetValues() {
			texts = append(texts, v.GetStringValue())
		}
		return kv.Value.GetStringValue() + strings.Join(texts, "\n")
	}
	return ""
}
