package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// causes are the failures that rule R53 calls transient.
var causes = map[string]func() (*http.Response, error){
	"refused": func() (*http.Response, error) { return nil, errRefused },
	"lookup":  func() (*http.Response, error) { return nil, errLookup },
	"reset":   func() (*http.Response, error) { return nil, errReset },
	"closed":  func() (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
	"cut off": func() (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(&brokenBody{})}, nil
	},
	"quota conflict":   func() (*http.Response, error) { return quotaConflict(), nil },
	"429":              func() (*http.Response, error) { return response(429, "", "Retry-After", "3"), nil },
	"500":              func() (*http.Response, error) { return statusResponse(500, "InternalError"), nil },
	"502":              func() (*http.Response, error) { return response(502, "bad gateway"), nil },
	"503":              func() (*http.Response, error) { return response(503, "", "Retry-After", "1"), nil },
	"504":              func() (*http.Response, error) { return response(504, ""), nil },
	"401":              func() (*http.Response, error) { return statusResponse(401, "Unauthorized"), nil },
	"no credentials":   func() (*http.Response, error) { return nil, errors.New("getting credentials: exec: exit status 1") },
	"no token to read": func() (*http.Response, error) { return statusResponse(401, "Unauthorized"), nil },
	"login page":       func() (*http.Response, error) { return response(200, "<html>", "Content-Type", "text/html"), nil },
	"redirect": func() (*http.Response, error) {
		return response(302, "", "Location", "https://login.example.com/"), nil
	},
	"no object": func() (*http.Response, error) { return response(200, ""), nil },
	"no kind":   func() (*http.Response, error) { return response(200, "{}"), nil },
	"half an object": func() (*http.Response, error) {
		return response(200, `{"kind":"SecretList","items":[{"metadata":{"na`), nil
	},
	"half a Status": func() (*http.Response, error) { return response(404, `{"kind":"Status","reason":"NotF`), nil },
	"page not found": func() (*http.Response, error) {
		return response(404, "<html>", "Content-Type", "text/html; charset=utf-8"), nil
	},
	"no such route": func() (*http.Response, error) {
		return response(404, "404 page not found", "Content-Type", "text/plain; charset=utf-8"), nil
	},
}

// limited are the causes that a server may have for ever, so WithRetryTimeout limits them.
var limited = map[string]bool{"429": true, "quota conflict": true, "500": true, "page not found": true, "no such route": true, "half a Status": true}

// renewable returns a transport whose credentials can be read again, on a connection that has accepted them once.
func renewable(ctx context.Context, server fakeServer) (*transport, func() int32) {
	x, n := newTestTransport(ctx, server)
	x.renew = func() (http.RoundTripper, error) { return x.next, nil }
	x.link.connected, x.link.responded = true, true
	x.link.setServed(Target{Version: "v1", Resource: "secrets"}.resource())
	return x, n.Load
}

// TestTransientOutages lets the API server fail in each transient way, for several retries and for longer than a
// server's errors are retried. Each request, a write too, succeeds soon afterwards and costs few tries (R53).
func TestTransientOutages(t *testing.T) {
	requests := map[string]string{"GET": "", "POST": `{"metadata":{"name":"x"}}`, "PUT": `{"metadata":{"name":"x"}}`, "PATCH": "{}", "DELETE": "", "WATCH": ""}
	for cause, fail := range causes {
		for method, body := range requests {
			for _, outage := range []time.Duration{16 * time.Second, 2 * time.Minute} {
				if limited[cause] && outage > 30*time.Second || (cause == "cut off" || cause == "half an object" || cause == "no object" || cause == "no kind") && method == "WATCH" { // its reader sees the end
					continue
				}
				t.Run(fmt.Sprint(cause, "/", method, "/", outage), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						x, tries := renewable(operationContext(t), func(int, *http.Request) (*http.Response, error) {
							if time.Since(start) < outage {
								return fail()
							}
							return response(200, someObject), nil
						})
						if cause == "no token to read" {
							x.renew = func() (http.RoundTripper, error) {
								if time.Since(start) < outage {
									return nil, os.ErrNotExist
								}
								return x.next, nil
							}
						}
						open := func() (*http.Response, error) {
							if method == "WATCH" {
								return x.RoundTrip(request(t.Context(), "GET", secretsPath+"?watch=true", ""))
							}
							return x.RoundTrip(request(t.Context(), method, secretsPath, body))
						}
						resp, err := open()
						for method == "WATCH" && (err != nil || resp.StatusCode != 200) && time.Since(start) < 5*time.Minute {
							time.Sleep(time.Second) // as the reader of a watch does
							resp, err = open()
						}
						if err != nil || resp.StatusCode != 200 {
							t.Fatalf("%v, %v after %s and %d tries", resp, err, time.Since(start), tries())
						}
						resp.Body.Close()
						if took := time.Since(start) - outage; took > maxBackoff+2*time.Second || tries() < 4 || tries() > 2*int32(outage/time.Second) {
							t.Errorf("%s after the outage, with %d tries", took, tries())
						}
					})
				})
			}
		}
	}
}

// TestEndlessOutages lets the API server fail for ever: each request ends with the context of its run (R53).
func TestEndlessOutages(t *testing.T) {
	for cause, fail := range causes {
		for _, method := range []string{"GET", "PATCH"} {
			synctest.Test(t, func(t *testing.T) {
				const timeout = time.Minute
				ctx, cancel := context.WithTimeoutCause(WithRetryTimeout(t.Context(), 30*time.Second), timeout, errors.New("timed out (--timeout)"))
				defer cancel()
				start := time.Now()
				x, _ := renewable(ctx, func(int, *http.Request) (*http.Response, error) { return fail() })
				resp, err := x.RoundTrip(request(t.Context(), method, secretsPath+"/x", ""))
				took := time.Since(start)
				switch {
				case limited[cause]:
					if err == nil && resp.StatusCode == 200 || took < 30*time.Second || took >= timeout {
						t.Errorf("%s %s: %v, %v after %s", cause, method, resp, err, took)
					}
				case took != timeout, err == nil && resp.StatusCode == 200, err != nil && !strings.Contains(err.Error(), "timed out (--timeout)"):
					t.Errorf("%s %s: %v, %v after %s", cause, method, resp, err, took)
				}
			})
		}
	}
}

// TestUnauthorized expects that a response of 401 is an outage only if the credentials were accepted before and can be
// read again; otherwise it is final, after one try with credentials that were read again (R53).
func TestUnauthorized(t *testing.T) {
	tests := map[string]struct {
		renewable, accepted bool
		tries               int32
		outage              bool
	}{
		"static":                  {false, true, 1, false},
		"renewable, never worked": {true, false, 2, false},
		"renewable":               {true, true, 0, true},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			x, n := newTestTransport(operationContext(t), func(int, *http.Request) (*http.Response, error) {
				if time.Since(start) < 16*time.Second {
					return statusResponse(401, "Unauthorized"), nil
				}
				return response(200, someObject), nil
			})
			x.link.connected, x.link.responded = true, tt.accepted
			if tt.renewable {
				x.renew = func() (http.RoundTripper, error) { return x.next, nil }
			}
			var reason string
			defer x.link.Listen(Listener{Unreachable: func(_, _ time.Time, why string) { reason = why }})()
			resp, err := x.RoundTrip(request(t.Context(), "POST", secretsPath, `{"metadata":{"name":"x"}}`))
			want := map[bool]int{true: 200, false: 401}[tt.outage]
			if err != nil || resp.StatusCode != want || tt.tries > 0 && n.Load() != tt.tries || !tt.outage && time.Since(start) > 0 {
				t.Errorf("%s: %v, %v after %d tries in %s", name, resp, err, n.Load(), time.Since(start))
			}
			if tt.outage != strings.HasPrefix(reason, "401 Unauthorized: the credentials have expired") {
				t.Errorf("%s: listeners are told %q", name, reason)
			}
		})
	}
}

// TestUnauthorizedEverywhere expects one outage while the API server accepts no credentials, also if objects of custom resources are
// read meanwhile: the API server that serves their group may be another one, and its 401 says nothing about this one (R53).
func TestUnauthorizedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		x, _ := renewable(operationContext(t), func(int, *http.Request) (*http.Response, error) {
			if time.Since(start) < 16*time.Second {
				return statusResponse(401, "Unauthorized"), nil
			}
			return response(200, someObject), nil
		})
		var told []string
		tell := func(what string) { told = append(told, what) }
		defer x.link.Listen(Listener{Unreachable: func(time.Time, time.Time, string) { tell("unreachable") }, Reachable: func() { tell("reachable") }})()
		var reads sync.WaitGroup
		for _, path := range []string{secretsPath, "/apis/example.com/v1/namespaces/n/widgets", "/apis/example.com/v1/namespaces/n/gadgets"} {
			reads.Go(func() {
				if resp, err := x.RoundTrip(request(t.Context(), "GET", path, "")); err != nil || resp.StatusCode != 200 {
					t.Errorf("%s: %v, %v", path, resp, err)
				}
			})
		}
		reads.Wait()
		if want := []string{"unreachable", "reachable"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// TestRenewedCertificate expects that a client certificate in files is read again, for new connections (R53).
func TestRenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	config := &rest.Config{Host: "https://cluster", TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}}
	write := func() (cert []byte) {
		cert, key := selfSigned(t)
		for name, data := range map[string][]byte{"crt": cert, "key": key} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return cert
	}
	write()
	s, err := newServer(config, "lockstep")
	if err != nil {
		t.Fatal(err)
	}
	x := &transport{server: s, ctx: t.Context(), writes: &Writes{}, link: newLink()}
	want := write()
	if !x.refresh(0) {
		t.Fatal("the credentials cannot be read again")
	}
	var base http.RoundTripper = x
	for {
		wrapper, ok := base.(interface{ WrappedRoundTripper() http.RoundTripper })
		if !ok {
			break
		}
		base = wrapper.WrappedRoundTripper()
	}
	got, err := base.(*http.Transport).TLSClientConfig.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || string(encodeCertificate(got.Certificate[0])) != string(want) {
		t.Errorf("the old certificate is still in use (%v)", err)
	}
}

// TestRetryAfterDate expects that the server's delay may be a date (R53).
func TestRetryAfterDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resp := response(429, "", "Retry-After", time.Now().Add(7*time.Second).UTC().Format(http.TimeFormat))
		if d := retryAfter(resp); d < 6*time.Second || d > 10*time.Second {
			t.Errorf("the delay is %s", d)
		}
	})
}

// selfSigned returns a new certificate and its key in PEM.
func selfSigned(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return encodeCertificate(der), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
