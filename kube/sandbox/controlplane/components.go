package controlplane

import (
	"context"
	"runtime/debug"
	"strings"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	cmapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	cmoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	schedapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedoptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"lockstep/kube/sandbox/pki"
)

// Left out: what watches over nodes (they are simulated, and healthy by definition), and what needs a
// cloud, a storage driver, devices or a bootstrapping node.
var leftOut = append([]string{"device-taint-eviction-controller"}, leftOutAlways...)

// leftOutAlways are those that every version knows; a name that it does not know is an error.
var leftOutAlways = []string{
	"node-lifecycle-controller", "node-ipam-controller", "bootstrap-signer-controller", "token-cleaner-controller",
	"persistentvolume-attach-detach-controller", "taint-eviction-controller",
	"resourceclaim-controller", "certificatesigningrequest-signing-controller", "legacy-serviceaccount-token-cleaner-controller",
}

// RunControllerManager runs the controllers until ctx ends, or they fail.
func (Embedded) RunControllerManager(ctx context.Context, kubeconfig string, p *pki.PKI) error {
	s, err := cmoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, disabled, aliases := cmapp.KnownControllers(), cmapp.ControllersDisabledByDefault(), cmapp.ControllerAliases()
	err = parse("kube-controller-manager", s.Flags(known, disabled, aliases), controllerManagerArgs(kubeconfig, p, leftOut))
	if err != nil {
		return err
	}
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

// RunScheduler runs the scheduler until ctx ends, or it fails.
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

// embeddedVersion is the Kubernetes version of this binary, "v1.37.1". It comes from the module, since the
// source itself carries a placeholder that kubectl and Helm cannot parse.
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

// stampedVersion makes /version tell embeddedVersion.
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
