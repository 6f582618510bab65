package post

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a server without a network: it gives the responses in order.
type answers []http.Response

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	next := (*a)[0]
	next.Body = http.NoBody
	*a = (*a)[1:]
	return &next, nil
}

// TestRetryAfter: a busy server decides when the next request comes, but not sooner than after a second.
func TestRetryAfter(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		want   time.Duration
	}{
		"seconds": {"30", 30 * time.Second},
		"date":    {"Sat, 01 Jan 2000 00:00:45 GMT", 45 * time.Second}, // synctest starts at midnight
		"past":    {"Fri, 01 Jan 1999 00:00:00 GMT", retryPause},
		"none":    {"", retryPause},
		"invalid": {"soon", retryPause},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := New(nil)
				client.http.Transport = &answers{
					{StatusCode: 503, Status: "503 Service Unavailable", Header: http.Header{"Retry-After": {c.header}}},
					{StatusCode: 200},
				}
				start := time.Now()
				if err := client.Retry(t.Context(), client.sendOnce); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took != c.want {
					t.Errorf("waited %s, want %s", took, c.want)
				}
			})
		})
	}
}

func (c *Client) sendOnce() error {
	req, err := http.NewRequest(http.MethodPost, "http://h", nil)
	if err == nil {
		_, err = c.Do(req)
	}
	return err
}

// TestClose: the pause that a server asks for ends when the run ends.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := New(nil)
		client.http.Transport = &answers{{StatusCode: 429, Status: "429 Too Many Requests", Header: http.Header{"Retry-After": {"3600"}}}}
		time.AfterFunc(time.Minute, client.Close)
		start := time.Now()
		err := client.Retry(t.Context(), client.sendOnce)
		if took := time.Since(start); took != time.Minute || err == nil || err.Error() != "429 Too Many Requests" {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// TestStatuses: only what may pass is tried again, redirects are not followed, and errors have no URL.
func TestStatuses(t *testing.T) {
	ends := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/500":
			w.WriteHeader(500)
		case "/502":
			w.WriteHeader(502)
		case "/302":
			http.Redirect(w, req, "/200", http.StatusFound)
		case "/hangs":
			<-ends
		}
	}))
	t.Cleanup(func() { close(ends); server.Close() })
	client := New(http.DefaultTransport.(*http.Transport).Clone())
	for path, c := range map[string]struct {
		want  string
		again bool
	}{
		"/200": {"", false}, "/500": {"500 Internal Server Error", false}, "/502": {"502 Bad Gateway", true},
		"/302": {"302 Found", false}, "/hangs": {"no answer", true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if path == "/hangs" {
			ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path+"?s3cret", nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(req)
		cancel()
		_, again := errors.AsType[temporary](err)
		if again != c.again || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, again: %v", path, err, again)
		}
	}
	req, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:1/s3cret", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Do(req); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("refused: %v", err)
	}
}
