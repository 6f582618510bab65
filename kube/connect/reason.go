package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxRetryAfter limits the pause that a server can ask for.
const maxRetryAfter = 30 * time.Second

// retryAfter returns the pause that a server asks for, with jitter, or 0.
func retryAfter(resp *http.Response) time.Duration {
	value := resp.Header.Get("Retry-After")
	seconds, err := strconv.Atoi(value)
	d := time.Duration(seconds) * time.Second
	if at, dateErr := http.ParseTime(value); err != nil && dateErr == nil { // proxies send dates
		d, err = time.Until(at), nil
	}
	if err != nil || d <= 0 {
		return 0
	}
	d = min(maxRetryAfter, d)
	return d + rand.N(d/5+1)
}

// messageOf returns the message of a Status, such as ": failed calling webhook …", or "".
func messageOf(resp *http.Response) string {
	if s := statusOf(resp); s.Kind == "Status" && s.Message != "" {
		return ": " + s.Message
	}
	return ""
}

// quotaConflict reports whether a request failed because many charged a ResourceQuota at once: then nothing is written, and the API
// server asks for the same request again.
func (c *call) quotaConflict(resp *http.Response) bool {
	s := statusOf(resp)
	return c.target.Resource != quotas && s.Reason == metav1.StatusReasonConflict && s.Details != nil && s.Details.Kind == quotas
}

const quotas = "resourcequotas"

// Mistyped reports whether the message of a refusal says that a value of an object does not fit its field. Server-side
// apply then responds with 500 although a retry cannot succeed. The message of a failing conversion webhook does not match.
func Mistyped(message string) bool {
	return strings.Contains(message, "failed to create typed patch object") || strings.Contains(message, "unable to convert unstructured object to")
}

// Unpatchable reports whether the message of a refusal says that the API server cannot apply the patch of a client-side apply,
// because two elements of a list have the same merge key, or one has none. It then responds with 500, too.
func Unpatchable(message string) bool {
	return strings.Contains(message, "The order in patch list") || strings.Contains(message, "does not contain declared merge key")
}

// untrusted reports whether the server's certificate is not trusted, or the server does not speak TLS.
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

// whatToCheck says what to check after the API server could not be reached.
func whatToCheck(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "no CA in the kubeconfig signed its certificate: check that this is the right cluster, and correct certificate-authority or pass --kube-ca-file"
	case errors.As(err, &host):
		return "its certificate is for another host: correct the server's address in the kubeconfig, or pass --kube-tls-server-name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew its certificate, or correct the clock of this machine"
	case noCredentials(err):
		return "fix the credential plugin of the user in the kubeconfig"
	case untrusted(err):
		return "check the server's address in the kubeconfig and its certificate"
	case apierrors.IsBadRequest(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return "this is not the response of an API server: check the server's address in the kubeconfig"
	}
	return "check that it is running and that this is the right context"
}

// refusedError is the error of a request to a server that refused the connection.
type refusedError struct {
	server string
	err    error
}

func (e *refusedError) Error() string { return e.server + " refused the connection" }

func (e *refusedError) Unwrap() error { return e.err }

// worded rewords the error of a request whose connection was refused; others stay as they are.
func worded(err error) error {
	request, ok := errors.AsType[*url.Error](err)
	if !ok || !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	server := request.URL
	if u, parseErr := url.Parse(server); parseErr == nil {
		server = u.Scheme + "://" + u.Host
	}
	return &refusedError{server, err}
}

// gettingCredentials starts client-go's errors about a credential plugin.
const gettingCredentials = "getting credentials: "

// noCredentials reports whether a credential plugin of the kubeconfig failed, or did not end.
func noCredentials(err error) bool { return strings.Contains(err.Error(), gettingCredentials) }

// shortReason explains in a few words why there was no response.
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
