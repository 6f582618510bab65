package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// longestAsked limits what a server can ask for with Retry-After.
const longestAsked = 30 * time.Second

// retryAfter is how long a server asks to be left alone.
func retryAfter(resp *http.Response) time.Duration {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || seconds <= 0 {
		return 0
	}
	d := min(longestAsked, time.Duration(seconds)*time.Second)
	return d + backoff(0, d/5+1)
}

// messageOf is what an answer of the API server says, ": failed calling webhook
// …" for instance, "" for somebody else's. The answer can still be read.
func messageOf(resp *http.Response) string {
	body, again := peek(resp)
	resp.Body = again
	var status metav1.Status
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Message == "" {
		return ""
	}
	return ": " + status.Message
}

// mistyped reports whether an object has fields of other types than its kind's: an
// answer to server-side apply that is a 500 though no later try can fare better.
func mistyped(message string) bool {
	return strings.Contains(message, "failed to create typed patch object")
}

// untrusted reports whether there is somebody else than the cluster, or nobody
// to be trusted, at its address.
func untrusted(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		host         x509.HostnameError
		invalid      x509.CertificateInvalidError
		record       tls.RecordHeaderError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) ||
		errors.As(err, &record) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// noCredentials reports whether a plugin of the kubeconfig has failed.
func noCredentials(err error) bool { return strings.Contains(err.Error(), "getting credentials: ") }

// resolved reports whether the server's name is not what was missing.
func resolved(err error) bool {
	var dns *net.DNSError
	return !errors.As(err, &dns)
}

// shortReason is the least that says why there was no answer.
func shortReason(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	case errors.As(err, &dns):
		return "lookup " + dns.Name + ": " + dns.Err
	}
	return err.Error()
}
