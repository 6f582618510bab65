package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"lockstep/kube/sandbox/cloud"
	"lockstep/kube/sandbox/controlplane"
	"lockstep/kube/sandbox/custom"
	"lockstep/kube/sandbox/kubelet"
	"lockstep/kube/sandbox/pki"
	"lockstep/kube/sandbox/statedir"
)

const (
	startTimeout = 60 * time.Second
	// stopTimeout is how long each part may take to stop.
	stopTimeout = 5 * time.Second
	pollPeriod  = 20 * time.Millisecond

	sandboxLog      = "sandbox.log"
	controlPlaneLog = "control-plane.log"
)

// components are the API server, the controller manager and the scheduler.
type components interface {
	StartAPIServer(context.Context, controlplane.APIServerConfig) (<-chan error, error)
	RunControllerManager(ctx context.Context, kubeconfig string, p *pki.PKI) error
	RunScheduler(ctx context.Context, kubeconfig string) error
}

// sandbox is a cluster and its files.
type sandbox struct {
	dir          *statedir.Dir
	kubeconfig   string
	auditLog     string
	auditObjects bool // in the audit log
	server       string
	nodes        int
	version      string // of Kubernetes, set by startControllers

	lockstepBin      string // runs as the containers of the lockstep image; "" simulates them
	removeKubeconfig bool   // on exit

	components components
	listener   net.Listener
	etcd       *embed.Etcd
	apiDone    <-chan error
	parts      sync.WaitGroup
	failed     chan error // the errors of parts that stopped unexpectedly
}

// open locks the folder and sets the paths. The caller must call remove.
func open(o options) (_ *sandbox, err error) {
	s := &sandbox{nodes: o.nodes, lockstepBin: o.lockstepBin, failed: make(chan error, 8)}
	if o.dataDir != "" {
		s.dir, err = statedir.Open(o.dataDir)
	} else {
		s.dir, err = statedir.Temp()
	}
	if err != nil {
		return nil, err
	}
	s.kubeconfig = s.path("admin.kubeconfig")
	if o.kubeconfig != "" {
		if s.kubeconfig, err = filepath.Abs(o.kubeconfig); err == nil {
			s.removeKubeconfig, err = claimKubeconfig(s.kubeconfig)
		}
	}
	if err == nil && o.auditLog != "" {
		s.auditObjects = o.auditObjects
		s.auditLog, err = filepath.Abs(o.auditLog)
	}
	if err != nil {
		return nil, errors.Join(err, s.dir.Close())
	}
	s.components = controlplane.Embedded{}
	if o.controlPlane != "" {
		s.components = controlplane.Processes{Program: o.controlPlane, LogFile: s.path(controlPlaneLog)}
	}
	return s, nil
}

var errForeignKubeconfig = errors.New("is not a sandbox's kubeconfig and was not changed; choose another file")

// claimKubeconfig checks that file may be overwritten, and reports whether to remove it on exit.
func claimKubeconfig(file string) (bool, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	case err != nil:
		return false, err
	case !pki.CanOverwrite(file):
		return false, fmt.Errorf("%s %w", file, errForeignKubeconfig)
	}
	return info.Size() > 0, nil // an empty file is the user's, any other is from a killed sandbox
}

func (s *sandbox) path(name string) string { return filepath.Join(s.dir.Path, name) }

// redirectLogs redirects the logs of the components to files in the folder.
func (s *sandbox) redirectLogs(verbosity int) error {
	if err := redirectStderr(s.path("stderr.log")); err != nil {
		return err
	}
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	err := fs.Parse([]string{"-logtostderr=false", "-alsologtostderr=false", "-stderrthreshold=FATAL",
		"-log_file=" + s.path(sandboxLog), fmt.Sprintf("-v=%d", verbosity)})
	// klog exits after a fatal error of a component; the sandbox must clean up first.
	klog.OsExit = func(int) {
		s.fail(errors.New("a component failed"))
		select {}
	}
	return err
}

// logTail returns the last errors in the logs: the folder with the logs may be removed on exit.
func (s *sandbox) logTail() string {
	klog.Flush()
	var data []byte
	for _, name := range []string{sandboxLog, controlPlaneLog} {
		more, _ := os.ReadFile(s.path(name))
		data = append(data, more...)
	}
	var tail []string
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "E") || strings.HasPrefix(line, "F") {
			tail = append(tail, line)
		}
	}
	if len(tail) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(strings.Join(tail[max(0, len(tail)-10):], ""))
}

func (s *sandbox) fail(err error) {
	select {
	case s.failed <- err:
	default: // the first errors explain the failure
	}
}

// start starts the cluster and waits until pods can be created. The caller must call stop, also after an error.
func (s *sandbox) start(ctx context.Context) error {
	p, err := pki.Open(s.path("pki"))
	if err != nil {
		return err
	}
	if s.listener, err = s.listen(); err != nil {
		return err
	}
	s.server = "https://" + s.listener.Addr().String()
	if err := s.startControlPlane(ctx, p); err != nil {
		return err
	}
	cfg, err := s.adminConfig(p)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if err := s.waitFor(ctx, "kube-apiserver", func() bool {
		code := 0
		client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).Do(ctx).StatusCode(&code)
		return code == http.StatusOK
	}); err != nil {
		return err
	}
	if err := s.startControllers(ctx, p, cfg, client); err != nil {
		return err
	}
	// Pods need this ServiceAccount, which the controller manager creates.
	return s.waitFor(ctx, "kube-controller-manager", func() bool {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// startControlPlane starts etcd and the API server, and writes the user's kubeconfig.
func (s *sandbox) startControlPlane(ctx context.Context, p *pki.PKI) error {
	clientSocket, err := s.dir.SocketPath("etcd.sock")
	if err != nil {
		return err
	}
	peerSocket, err := s.dir.SocketPath("etcd-peer.sock")
	if err != nil {
		return err
	}
	var endpoint string
	s.etcd, endpoint, err = controlplane.StartEtcd(ctx, controlplane.EtcdConfig{
		Dir: s.path("etcd"), LogFile: s.path("etcd.log"), ClientSocket: clientSocket, PeerSocket: peerSocket,
	})
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	s.apiDone, err = s.components.StartAPIServer(ctx, controlplane.APIServerConfig{
		Listener: s.listener, PKI: p, Etcd: endpoint, AuditLog: s.auditLog, AuditObjects: s.auditObjects,
	})
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	if err := p.WriteKubeconfig(s.kubeconfig, s.server, pki.Admin); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// startControllers starts the nodes, the controllers and the scheduler.
func (s *sandbox) startControllers(ctx context.Context, p *pki.PKI, cfg *rest.Config, client kubernetes.Interface) error {
	cm, sched := s.path("controller-manager.kubeconfig"), s.path("scheduler.kubeconfig")
	err := errors.Join(
		p.WriteKubeconfig(cm, s.server, pki.ControllerManager),
		p.WriteKubeconfig(sched, s.server, pki.Scheduler))
	if err != nil {
		return err
	}
	cert, err := p.Certificate(pki.KubeletServer)
	if err != nil {
		return err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	s.version = version.GitVersion
	nodes, err := kubelet.New(ctx, kubelet.Options{
		Config: cfg, Nodes: s.nodes, Version: s.version, Certificate: cert, Clients: p.Pool(),
		Program: s.lockstepBin, Dir: s.path("pods"),
	})
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	s.run(ctx, "kube-controller-manager", func() error { return s.components.RunControllerManager(ctx, cm, p) })
	s.run(ctx, "kube-scheduler", func() error { return s.components.RunScheduler(ctx, sched) })
	s.run(ctx, "kubelet", func() error { return nodes.Run(ctx) })
	s.run(ctx, "cloud", func() error { return cloud.Run(ctx, client) })
	s.run(ctx, "custom resources", func() error { return custom.Run(ctx, cfg) })
	return nil
}

// run runs a part of the cluster in the background. If the part ends before ctx is done, the cluster has failed.
func (s *sandbox) run(ctx context.Context, name string, f func() error) {
	s.parts.Go(func() {
		if err := f(); ctx.Err() == nil {
			if err == nil {
				err = errors.New("ended")
			}
			s.fail(fmt.Errorf("%s: %w", name, err))
		}
	})
}

// adminConfig returns the client configuration of the simulated parts, with all permissions.
func (s *sandbox) adminConfig(p *pki.PKI) (*rest.Config, error) {
	file := s.path("kubelet.kubeconfig")
	if err := p.WriteKubeconfig(file, s.server, pki.Kubelet); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = 1000, 2000, "lockstep-sandbox"
	return cfg, nil
}

// waitFor polls ok until it returns true. what names the component in errors.
func (s *sandbox) waitFor(ctx context.Context, what string, ok func() bool) error {
	deadline := time.After(startTimeout)
	for !ok() {
		select {
		case err := <-s.apiDone:
			s.apiDone = nil
			return apiServerEnded(err)
		case err := <-s.failed:
			return err
		case <-deadline:
			return fmt.Errorf("%s is not ready after %v", what, startTimeout)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollPeriod):
		}
	}
	return nil
}

// listen listens on a free port. If the folder was used before, it prefers the same port, so that copies of
// the kubeconfig stay valid.
func (s *sandbox) listen() (net.Listener, error) {
	file := s.path("port")
	if data, err := os.ReadFile(file); err == nil {
		if ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", string(data))); err == nil {
			return ln, nil
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	return ln, os.WriteFile(file, []byte(port), 0o600)
}

// stop waits until the cluster has stopped. The context of start must be done.
func (s *sandbox) stop() {
	// The API server needs etcd until it has finished and audited its requests, so etcd stops last.
	if s.apiDone != nil {
		select {
		case <-s.apiDone:
		case <-time.After(stopTimeout):
		}
	} else if s.listener != nil {
		_ = s.listener.Close()
	}
	runWithTimeout(stopTimeout, s.parts.Wait)
	if s.etcd != nil {
		runWithTimeout(stopTimeout, s.etcd.Close)
	}
	klog.Flush()
}

// runWithTimeout runs f and waits for it, but at most d.
func runWithTimeout(d time.Duration, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
	}
}

// remove removes temporary files. It may be called from any goroutine, and more than once.
func (s *sandbox) remove() error {
	var err error
	if s.removeKubeconfig {
		if err = os.Remove(s.kubeconfig); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, s.dir.Close())
}
