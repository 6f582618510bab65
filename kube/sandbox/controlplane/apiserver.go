// Package controlplane runs the real components of a Kubernetes cluster: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler, in this process (Embedded) or as processes of another version
// (Processes).
//
// A process can have only one embedded cluster: feature gates, metrics and configz are global variables of the
// components.
package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	apiapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"lockstep/kube/sandbox/pki"
)

// APIServerConfig configures the API server.
type APIServerConfig struct {
	Listener net.Listener // the server closes it
	PKI      *pki.PKI
	Etcd     string // endpoint
	AuditLog string // "" for none
	// AuditObjects adds the objects of writes to the audit log: see auditObjects.
	AuditObjects bool
}

// Embedded runs the components in this process.
type Embedded struct{}

// StartAPIServer starts the API server, which serves until ctx is done, and returns before it is ready. The
// channel delivers its error after the last request has been answered and audited.
func (Embedded) StartAPIServer(ctx context.Context, c APIServerConfig) (<-chan error, error) {
	args, err := apiServerArgs(c)
	if err != nil {
		return nil, err
	}
	s := apioptions.NewServerRunOptions()
	if err := parse("kube-apiserver", s.Flags(), args); err != nil {
		return nil, err
	}
	s.SecureServing.Listener = c.Listener
	s.SecureServing.BindPort = c.Listener.Addr().(*net.TCPAddr).Port
	s.SecureServing.ExternalAddress = net.IPv4(127, 0, 0, 1)
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	completedOptions, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completedOptions.Validate(); len(errs) != 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config, err := apiapp.NewConfig(completedOptions)
	if err != nil {
		return nil, err
	}
	for _, g := range []*genericapiserver.Config{
		config.KubeAPIs.ControlPlane.Generic, &config.Aggregator.GenericConfig.Config, &config.ApiExtensions.GenericConfig.Config,
	} {
		g.EffectiveVersion = stampedVersion{g.EffectiveVersion}
	}
	if err := replaceBootstrap(config.KubeAPIs.ControlPlane.Generic); err != nil {
		return nil, err
	}
	completedConfig, err := config.Complete()
	if err != nil {
		return nil, err
	}
	server, err := apiapp.CreateServerChain(completedConfig)
	if err != nil {
		return nil, err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- prepared.Run(ctx) }()
	return done, nil
}

func apiServerArgs(c APIServerConfig) ([]string, error) {
	p := c.PKI
	args := []string{
		"--etcd-servers=" + c.Etcd,
		"--bind-address=127.0.0.1",
		"--cert-dir=" + p.Dir(),
		"--tls-cert-file=" + p.Path(pki.APIServer+".crt"),
		"--tls-private-key-file=" + p.Path(pki.APIServer+".key"),
		"--client-ca-file=" + p.Path(pki.CACert),
		"--token-auth-file=" + p.Path(pki.Tokens),
		"--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.Path(pki.ServiceAccountKey),
		"--service-account-signing-key-file=" + p.Path(pki.ServiceAccountKey),
		"--api-audiences=https://kubernetes.default.svc.cluster.local",
		"--requestheader-client-ca-file=" + p.Path(pki.CACert),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.Path(pki.FrontProxy+".crt"),
		"--proxy-client-key-file=" + p.Path(pki.FrontProxy+".key"),
		"--kubelet-client-certificate=" + p.Path(pki.KubeletClient+".crt"),
		"--kubelet-client-key=" + p.Path(pki.KubeletClient+".key"),
		"--kubelet-certificate-authority=" + p.Path(pki.CACert),
		"--kubelet-preferred-address-types=InternalIP",
		"--endpoint-reconciler-type=none",
		// The plugin taints new nodes. The controller that removes the taint is disabled.
		"--disable-admission-plugins=TaintNodesByCondition",
		"--profiling=false",
		"--shutdown-delay-duration=0s",
		"--allow-privileged=true",
	}
	if c.AuditLog == "" {
		return args, nil
	}
	policy := filepath.Join(p.Dir(), "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(c.auditPolicy()), 0o600); err != nil {
		return nil, err
	}
	return append(args,
		"--audit-policy-file="+policy,
		"--audit-log-path="+c.AuditLog,
		// An event is in the file before its request is answered, and none is ever dropped.
		"--audit-log-mode=blocking",
		// In megabytes (0 means 100): the file is never rotated, so it has all events.
		"--audit-log-maxsize=1048576",
	), nil
}

func (c APIServerConfig) auditPolicy() string {
	policy := `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
`
	if c.AuditObjects {
		policy += auditObjects
	}
	return policy + "- level: Metadata\n"
}

// auditObjects logs the object after each write, so that a reader knows whose it was and became, and Secrets as they are sent,
// because release records are Secrets. It leaves out CustomResourceDefinitions, which are large, and the writes of the cluster's
// own components, of which there are many.
const auditObjects = `- level: Metadata
  userGroups: [system:nodes, "system:serviceaccounts:kube-system"]
- level: Metadata
  users: ["system:kube-controller-manager", "system:kube-scheduler", "system:apiserver"]
- level: Metadata
  resources:
  - {group: "", resources: [events, "*/status", "serviceaccounts/token"]}
  - {group: apiextensions.k8s.io}
  - {group: coordination.k8s.io}
  - {group: authentication.k8s.io}
  - {group: authorization.k8s.io}
- level: Request
  resources: [{group: "", resources: [secrets]}]
  verbs: [create, update]
- level: Metadata
  resources: [{group: "", resources: [secrets]}]
- level: RequestResponse
  verbs: [create, update, patch, delete]
  omitManagedFields: true
`

// parse parses the arguments of a component into its options.
func parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	all := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, f := range sets.FlagSets {
		all.AddFlagSet(f)
	}
	if err := all.Parse(args); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// EtcdConfig has the paths of etcd. It listens on unix sockets, because every local user can connect to a port.
type EtcdConfig struct {
	Dir, LogFile             string
	ClientSocket, PeerSocket string
}

// StartEtcd starts etcd, waits until it serves, and returns the endpoint for clients. The caller closes etcd
// after its clients have stopped.
func StartEtcd(ctx context.Context, c EtcdConfig) (*embed.Etcd, string, error) {
	wal.SegmentSizeBytes = 4 << 20 // of each of the two preallocated log files, 64 MB by default
	cfg := embed.NewConfig()
	cfg.Dir = c.Dir
	cfg.UnsafeNoFsync = true // a sandbox may lose its data in a power cut
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{c.LogFile}
	// A single member elects itself after one election timeout.
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.QuotaBackendBytes = 2 << 30
	client, peer := url.URL{Scheme: "unix", Path: c.ClientSocket}, url.URL{Scheme: "unix", Path: c.PeerSocket}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, client.String(), nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.Close()
	return nil, "", err
}
