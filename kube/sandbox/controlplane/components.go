package controlplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	cmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	cmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedoptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/controller/job"

	"lockstep/kube/sandbox/command"
	"lockstep/kube/sandbox/pki"
)

// disabledControllers are the controllers that monitor nodes (the simulated nodes are always healthy), or that need
// a cloud, a storage driver, devices or joining nodes.
var disabledControllers = append([]string{"device-taint-eviction-controller"}, disabledInAllVersions...)

// disabledInAllVersions are the disabledControllers that every supported version knows. A version refuses unknown names.
var disabledInAllVersions = []string{
	"node-lifecycle-controller", "node-ipam-controller", "bootstrap-signer-controller", "token-cleaner-controller",
	"persistentvolume-attach-detach-controller", "taint-eviction-controller",
	"resourceclaim-controller", "certificatesigningrequest-signing-controller", "legacy-serviceaccount-token-cleaner-controller",
}

// jobBackOff is how long a Job first waits before it replaces a failed pod: 1s, as a container's first restart; 10s in a real
// cluster.
const jobBackOff = time.Second

// RunControllerManager runs the controllers until ctx is done or they fail.
func (Embedded) RunControllerManager(ctx context.Context, kubeconfig string, p *pki.PKI) error {
	s, err := cmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := cmapp.KnownControllers(), cmapp.ControllersDisabledByDefault(), cmapp.ControllerAliases()
	err = parse("kube-controller-manager", s.Flags(known, disabled, aliases), controllerManagerArgs(kubeconfig, p, disabledControllers))
	if err != nil {
		return err
	}
	job.DefaultJobPodFailureBackOff = jobBackOff
	c, err := s.Config(ctx, known, disabled, aliases)
	if err != nil {
		return err
	}
	return cmapp.Run(ctx, c.Complete())
}

func controllerManagerArgs(kubeconfig string, p *pki.PKI, without []string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--controllers=*,-" + strings.Join(without, ",-"),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + p.Path(pki.ServiceAccountKey),
		"--root-ca-file=" + p.Path(pki.CACert),
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--profiling=false",
		"--concurrent-gc-syncs=5",
		// A webhook that does not respond blocks a worker for up to 30s; others must not wait for it.
		"--concurrent-deployment-syncs=50", "--concurrent-replicaset-syncs=50", "--concurrent-statefulset-syncs=50",
		"--concurrent-job-syncs=50",
		"--enable-dynamic-provisioning=false",
		"--pvclaimbinder-sync-period=1s",
	}
}

func schedulerArgs(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--profiling=false",
	}
}

// RunScheduler runs the scheduler until ctx is done or it fails.
func (Embedded) RunScheduler(ctx context.Context, kubeconfig string) error {
	opts := schedoptions.NewOptions()
	err := parse("kube-scheduler", *opts.Flags, schedulerArgs(kubeconfig))
	if err != nil {
		return err
	}
	cc, sched, err := schedapp.Setup(ctx, opts)
	if err != nil {
		return err
	}
	return schedapp.Run(ctx, cc, sched)
}

// embeddedVersion returns the embedded Kubernetes version, such as "v1.37.1": the version of its module. The
// version in the source is a placeholder that kubectl and Helm cannot parse.
func embeddedVersion() string {
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, m := range bi.Deps {
			if m.Path == "k8s.io/kubernetes" {
				return m.Version
			}
		}
	}
	return "v0.0.0-unknown"
}

// stampedVersion makes /version return embeddedVersion.
type stampedVersion struct {
	compatibility.EffectiveVersion
}

func (s stampedVersion) Info() *version.Info {
	i := s.EffectiveVersion.Info()
	if i != nil {
		i.GitVersion, i.GitCommit, i.GitTreeState = embeddedVersion(), "", "clean"
	}
	return i
}

// killAfter is how long a component may take to exit after SIGTERM.
const killAfter = 4 * time.Second

// Processes runs the components of another Kubernetes version as processes.
type Processes struct {
	Program string // its first argument names the component, the others are the component's
	LogFile string // the components append their output to it
}

// StartAPIServer is like Embedded.StartAPIServer.
func (p Processes) StartAPIServer(ctx context.Context, c APIServerConfig) (<-chan error, error) {
	args, err := apiServerArgs(c)
	if err != nil {
		return nil, err
	}
	// The listener only reserved the port.
	if err := c.Listener.Close(); err != nil {
		return nil, err
	}
	args = append(args, "--secure-port="+strconv.Itoa(c.Listener.Addr().(*net.TCPAddr).Port))
	done := make(chan error, 1)
	go func() { done <- p.run(ctx, "kube-apiserver", args) }()
	return done, nil
}

// RunControllerManager is like Embedded.RunControllerManager.
func (p Processes) RunControllerManager(ctx context.Context, kubeconfig string, k *pki.PKI) error {
	// Older versions first look at a new HorizontalPodAutoscaler after this period, 15 s by default.
	args := append(controllerManagerArgs(kubeconfig, k, disabledInAllVersions), "--horizontal-pod-autoscaler-sync-period=1s")
	return p.run(ctx, "kube-controller-manager", args)
}

// RunScheduler is like Embedded.RunScheduler.
func (p Processes) RunScheduler(ctx context.Context, kubeconfig string) error {
	return p.run(ctx, "kube-scheduler", schedulerArgs(kubeconfig))
}

// run runs a component until ctx is done, and waits until it has exited.
func (p Processes) run(ctx context.Context, component string, args []string) error {
	// EndWithParent applies to the thread that starts the component.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.Program, append([]string{component}, args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = command.EndWithParent(syscall.SIGTERM)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killAfter
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", p.Program, err)
	}
	return nil
}
