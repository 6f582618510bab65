package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestWhatToCheck covers the advice for each reason why the API server cannot be reached.
func TestWhatToCheck(t *testing.T) {
	const running = "check that it is running"
	for _, c := range []struct {
		err  error
		want string
	}{
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "--kube-ca-file"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}}, "--kube-tls-server-name"},
		{&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, "correct the clock"},
		{&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}}, "its certificate"},
		{tls.RecordHeaderError{}, "check the server's address"},
		{errors.New("getting credentials: exec: no such plugin"), "credential plugin"},
		{apierrors.NewBadRequest("rejected"), "not the response of an API server"},
		{syscall.ECONNREFUSED, running},
		{syscall.ETIMEDOUT, running},
	} {
		err := fmt.Errorf("version: %w", &url.Error{Op: "Get", URL: "https://h", Err: c.err})
		if got := whatToCheck(err); !strings.Contains(got, c.want) || c.want != running && strings.Contains(got, running) {
			t.Errorf("%v: %q, want %q", err, got, c.want)
		}
	}
}
