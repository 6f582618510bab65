package trace

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/ui/trace/receiver"
)

// TestGRPCAnswers: the status of a call is that in the trailers, or in the header of an answer without a body; only what OTLP calls
// retryable is tried again, and the server knows how long it may take.
func TestGRPCAnswers(t *testing.T) {
	for _, c := range []struct {
		header, trailer, want string
		retried               bool
	}{
		{"", "0", "", false},
		{"0", "", "", false},
		{"", "16", "gRPC status 16 UNAUTHENTICATED", false},
		{"12", "", "gRPC status 12 UNIMPLEMENTED", false},
		{"14", "", "gRPC status 14 UNAVAILABLE", true},
		{"", "99", "the answer is not one of a gRPC server", false},
		{"", "", "the answer is not one of a gRPC server", false},
	} {
		t.Run(c.header+"/"+c.trailer, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				_, _ = io.Copy(io.Discard, req.Body)
				if got := req.Header.Get("Grpc-Timeout"); got != "10000m" {
					t.Errorf("Grpc-Timeout: %q", got)
				}
				status := c.header
				if calls.Add(1) > 1 {
					status = "0"
				}
				w.Header().Set("Content-Type", "application/grpc")
				if status != "" {
					w.Header().Set("Grpc-Status", status)
					return
				}
				_, _ = w.Write(make([]byte, 5))
				if c.trailer != "" {
					w.Header().Set(http.TrailerPrefix+"Grpc-Status", c.trailer)
				}
			}))
			server.Config.Protocols = new(http.Protocols)
			server.Config.Protocols.SetUnencryptedHTTP2(true)
			server.Start()
			defer server.Close()
			to, err := signalTo(traces, server.URL, "grpc")
			if err != nil {
				t.Fatal(err)
			}
			err = newClient(to).UploadTraces(t.Context(), nil)
			if retried := calls.Load() == 2; retried != c.retried {
				t.Errorf("%d calls", calls.Load())
			}
			if want := c.want; !c.retried && (err == nil) != (want == "") || err != nil && (c.retried || err.Error() != want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// signalTo returns an endpoint as the environment would name it.
func signalTo(s signal, url, protocol string) (*endpoint, error) {
	e := &endpoint{grpc: protocol == "grpc", timeout: 10 * time.Second, header: http.Header{}}
	req, err := http.NewRequest(http.MethodPost, url+s.grpcMethod, nil)
	if err == nil {
		e.url = req.URL
	}
	return e, err
}

// TestReceiverComesBack: what a receiver refused during the run does not keep the end of the run from it; the two signals wait each
// for their own receiver.
func TestReceiverComesBack(t *testing.T) {
	to, ends := receiver.Start(), make(chan struct{})
	var refused atomic.Bool
	to.Before = func(req *http.Request) int {
		if strings.HasSuffix(req.URL.Path, "/v1/traces") && !refused.Swap(true) {
			return http.StatusBadRequest
		}
		return 0
	}
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ends }))
	t.Cleanup(func() { close(ends); hangs.Close(); to.Close() })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", hangs.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	r, err := Start("v1", "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := install
	e.Time = time.Now()
	r.Consume(e) // ends the span "prepare"
	for end := time.Now().Add(20 * time.Second); r.senders[0].failure() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first request was not refused")
		}
	}
	err = r.Close()
	if root := receiver.Named(to.Spans(), "install shop"); root == nil {
		t.Error("the span of the run was not sent")
	}
	if err == nil || strings.Contains(err.Error(), "traces were") || !strings.HasPrefix(err.Error(), "metrics were not sent to ") || !strings.HasSuffix(err.Error(), ": no answer") {
		t.Errorf("error: %v", err)
	}
}
