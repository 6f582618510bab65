package connect

import (
	"net/http"
	"sync"
	"sync/atomic"

	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"
)

// server is the API server of a kubeconfig, with client-go's round trippers, which add the credentials. All connections share
// it, so that all have the same credentials: if some had a newer token that is wrong, their failures would be an outage that
// every response to the others ends (R53).
type server struct {
	config *rest.Config
	url    string
	path   string // of url, a prefix of all request paths
	plugin bool   // next may ask a plugin for credentials; then it includes credentialed
	// database is set once the database of the release records has been reached (HELM_DRIVER=sql).
	database atomic.Bool

	mu         sync.Mutex
	next       http.RoundTripper
	generation int // how often next was replaced
	// renew returns a replacement for next that reads the credentials again; nil if they cannot change.
	renew func() (http.RoundTripper, error)
}

func newServer(config *rest.Config, agent string) (*server, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	config.WrapTransport = withoutHelmRetry(config.WrapTransport)
	s := &server{config: config, plugin: config.ExecProvider != nil || config.AuthProvider != nil}
	if s.plugin {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return credentialed{next} })
	}
	var err error
	if s.next, err = rest.TransportFor(config); err != nil {
		return nil, err
	}
	if s.plugin || config.BearerTokenFile != "" || config.CertFile != "" {
		s.renew = func() (http.RoundTripper, error) { return renewedTransport(config) }
	}
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	s.url, s.path = url.String(), url.Path
	return s, nil
}

// throughTransport returns a configuration for clients whose requests go through t, which adds the credentials.
func (s *server) throughTransport(t *transport) *rest.Config {
	config := rest.AnonymousClientConfig(s.config)
	config.Host, config.TLSClientConfig, config.Transport = s.url, rest.TLSClientConfig{}, t
	config.Dial, config.Proxy, config.Timeout = nil, nil, 0
	config.ContentType = "application/json" // so that the transport can read request bodies; typed clients prefer protobuf
	config.QPS, config.Burst = -1, 0
	config.WarningHandler = rest.NoWarnings{}
	return config
}

// refresh replaces next, so that the credentials are read again, unless another request has replaced it since generation
// used. It reports whether a retry may have other credentials.
func (s *server) refresh(used int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renew == nil {
		return false
	}
	if s.generation != used {
		return true
	}
	next, err := s.renew()
	if err != nil {
		return false
	}
	s.next = next
	s.generation++
	return true
}

// current returns the round tripper for a try and its generation.
func (s *server) current() (http.RoundTripper, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, s.generation
}

// renewedTransport returns the round trippers for config with the credentials that its files and plugins have now. It
// reads a client certificate itself, because client-go would keep the connections that use the old one.
func renewedTransport(config *rest.Config) (http.RoundTripper, error) {
	if config.CertFile != "" {
		config = rest.CopyConfig(config)
		config.CertData, config.KeyData = nil, nil
		if err := rest.LoadTLSFiles(config); err != nil {
			return nil, err
		}
		config.CertFile, config.KeyFile = "", ""
	}
	return rest.TransportFor(config)
}

// withoutHelmRetry removes Helm's own retries, because they resend a request whose body has already been read.
func withoutHelmRetry(wrap clienttransport.WrapperFunc) clienttransport.WrapperFunc {
	if wrap == nil {
		return nil
	}
	return func(next http.RoundTripper) http.RoundTripper {
		wrapped := wrap(next)
		if retrying, ok := wrapped.(*helmkube.RetryingRoundTripper); ok {
			return retrying.Wrapped
		}
		return wrapped
	}
}
