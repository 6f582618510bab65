package trace

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"lockstep/ui/post"
)

// client sends OTLP requests over HTTP, or as unary gRPC calls over HTTP/2. It is small because OpenTelemetry's own clients
// bring google.golang.org/grpc, 2.5 MB of the binary, even those for HTTP.
type client struct {
	to *endpoint
	*post.Client

	mu      sync.Mutex
	sending time.Time // when the request in flight started, or zero
	err     error     // of the last request
}

func newClient(to *endpoint) *client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = to.tls
	if to.grpc {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(true)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return &client{to: to, Client: post.New(transport)}
}

// Start and Stop make client an otlptrace.Client.
func (c *client) Start(context.Context) error { return nil }

// Stop closes idle connections.
func (c *client) Stop(context.Context) error {
	c.CloseIdle()
	return nil
}

// UploadTraces sends spans.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	return c.send(ctx, &tracepb.TracesData{ResourceSpans: spans}) // the same bytes as an ExportTraceServiceRequest
}

// send sends a message, and tries again unless the recorder is closing.
func (c *client) send(ctx context.Context, message proto.Message) error {
	body, err := c.encode(message)
	if err != nil {
		return err
	}
	return c.Retry(ctx, func() error {
		c.note(time.Now(), nil)
		err := c.post(ctx, body)
		c.note(time.Time{}, err)
		return err
	})
}

// note keeps what hangs needs.
func (c *client) note(sending time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sending = sending; sending.IsZero() {
		c.err = err
	}
}

// hangs reports whether the last request had no answer or has been in flight for some time, so that waiting for another is useless.
func (c *client) hangs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Is(c.err, post.ErrNoAnswer) || !c.sending.IsZero() && time.Since(c.sending) > flushTimeout
}

func (c *client) encode(message proto.Message) ([]byte, error) {
	body, err := proto.Marshal(message)
	if err != nil {
		return nil, err
	}
	if c.to.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		body = b.Bytes()
	}
	if c.to.grpc { // a message: whether it is compressed, its length, its bytes
		frame := make([]byte, 5, 5+len(body))
		if c.to.gzip {
			frame[0] = 1
		}
		binary.BigEndian.PutUint32(frame[1:], uint32(len(body)))
		body = append(frame, body...)
	}
	return body, nil
}

// post sends a request once. Its error does not have the URL, which may have credentials.
func (c *client) post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.to.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.url.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = c.to.header.Clone()
	compression := "Content-Encoding"
	if c.to.grpc {
		compression = "Grpc-Encoding"
		req.Header.Set("Content-Type", "application/grpc")
		req.Header.Set("Te", "trailers")
		req.Header.Set("Grpc-Timeout", fmt.Sprintf("%dm", min(c.to.timeout.Milliseconds(), 99_999_999))) // 8 digits at most
	} else {
		req.Header.Set("Content-Type", "application/x-protobuf")
	}
	if c.to.gzip {
		req.Header.Set(compression, "gzip")
	}
	resp, err := c.Do(req)
	if err == nil && c.to.grpc {
		err = grpcError(resp)
	}
	return err
}

// grpcError returns the error that the response of a gRPC server stands for.
func grpcError(resp *http.Response) error {
	status := cmp.Or(resp.Trailer.Get("Grpc-Status"), resp.Header.Get("Grpc-Status"))
	code, err := strconv.Atoi(status)
	switch {
	case err != nil || code < 0 || code >= len(grpcCodes):
		return errors.New("the answer is not one of a gRPC server")
	case code == 0:
		return nil
	}
	failed := fmt.Errorf("gRPC status %d %s", code, grpcCodes[code])
	if slices.Contains(grpcRetryable, code) {
		return post.Again(failed)
	}
	return failed
}

// grpcCodes are the names of gRPC's status codes.
var grpcCodes = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// grpcRetryable are those that OTLP calls retryable.
var grpcRetryable = []int{1, 4, 8, 10, 11, 14, 15}

// failure returns why the last request failed, or that it has no answer.
func (c *client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.sending.IsZero() {
		return post.ErrNoAnswer
	}
	return c.err
}
