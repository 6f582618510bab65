package trace

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signal is one of the two kinds of data: traces or metrics.
type signal struct {
	name       string // in variables: "TRACES"
	path       string // below OTEL_EXPORTER_OTLP_ENDPOINT, with HTTP
	grpcMethod string
}

var (
	traces  = signal{"TRACES", "v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}
	metrics = signal{"METRICS", "v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"}
)

// endpoint is where a signal is sent, as OpenTelemetry's environment variables say.
type endpoint struct {
	url     *url.URL
	grpc    bool
	gzip    bool
	header  http.Header
	timeout time.Duration
	tls     *tls.Config
}

// Environment returns the variables that make a run in the cluster trace and count as this process would: those of
// OpenTelemetry, but for the files of this machine, and the span that the run belongs to. Some are secrets.
func Environment() map[string]string {
	out := map[string]string{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		file := strings.HasSuffix(name, "_CERTIFICATE") || strings.HasSuffix(name, "_CLIENT_KEY")
		if strings.HasPrefix(name, "OTEL_") && !file || name == "TRACEPARENT" || name == "TRACESTATE" {
			out[name] = value
		}
	}
	return out
}

// variable returns OTEL_EXPORTER_OTLP_<NAME>, or that of the signal alone.
func (s signal) variable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_"+s.name+"_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// endpoint returns where the signal is sent, nil if nothing asks for it.
func (s signal) endpoint() (*endpoint, error) {
	exporter := os.Getenv("OTEL_" + s.name + "_EXPORTER")
	if disabled, err := strconv.ParseBool(os.Getenv("OTEL_SDK_DISABLED")); err == nil && disabled {
		return nil, nil
	}
	switch {
	case exporter == "none", exporter == "" && s.variable("ENDPOINT") == "":
		return nil, nil
	case exporter != "" && exporter != "otlp":
		return nil, fmt.Errorf("OTEL_%s_EXPORTER: lockstep has only the exporters otlp and none", s.name)
	}
	e := &endpoint{timeout: 10 * time.Second}
	switch protocol := s.variable("PROTOCOL"); protocol {
	case "grpc":
		e.grpc = true
	case "", "http/protobuf":
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL: lockstep has only the protocols http/protobuf and grpc")
	}
	if ms := s.variable("TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n <= 0 {
			return nil, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds")
		}
		e.timeout = time.Duration(n) * time.Millisecond
	}
	e.gzip = s.variable("COMPRESSION") == "gzip"
	var err error
	if e.url, err = s.address(e.grpc); err != nil {
		return nil, err
	}
	if e.header, err = s.headers(); err != nil {
		return nil, err
	}
	if password, ok := e.url.User.Password(); ok {
		request := http.Request{Header: e.header}
		request.SetBasicAuth(e.url.User.Username(), password)
	}
	e.url.User = nil
	if e.tls, err = s.tls(); err != nil {
		return nil, err
	}
	return e, nil
}

// address returns the URL to post to.
func (s signal) address(grpc bool) (*url.URL, error) {
	own := os.Getenv("OTEL_EXPORTER_OTLP_" + s.name + "_ENDPOINT")
	text, variable := cmp.Or(own, os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")), "OTEL_EXPORTER_OTLP_ENDPOINT"
	switch {
	case text == "" && grpc:
		text = "http://localhost:4317"
	case text == "":
		text = "http://localhost:4318"
	case grpc && !strings.Contains(text, "://"):
		scheme := "https://"
		if insecure, _ := strconv.ParseBool(s.variable("INSECURE")); insecure {
			scheme = "http://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) || u.Host == "" { // the error may have a password
		return nil, fmt.Errorf("%s is not an http:// or https:// URL", variable)
	}
	switch {
	case grpc:
		u.Path = s.grpcMethod
	case own == "":
		u = u.JoinPath(s.path)
	case u.Path == "":
		u.Path = "/"
	}
	return u, nil
}

// headers returns the headers of all requests: "key=value,key2=value2", with percent-encoded values.
func (s signal) headers() (http.Header, error) {
	out := http.Header{}
	for pair := range strings.SplitSeq(s.variable("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(key) == "" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list KEY=VALUE,KEY=VALUE")
		}
		out.Set(strings.TrimSpace(key), value)
	}
	return out, nil
}

// tls returns the certificates of the variables, nil for the defaults.
func (s signal) tls() (*tls.Config, error) {
	ca, cert, key := s.variable("CERTIFICATE"), s.variable("CLIENT_CERTIFICATE"), s.variable("CLIENT_KEY")
	if ca == "" && cert == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE has no PEM certificate")
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
