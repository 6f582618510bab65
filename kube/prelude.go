package kube

import (
	"context"
	"fmt"

	helmkube "helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// What comes before Helm's action: the namespace and crds/. Helm would do both,
// but not as units that can be paused, watched and told of (R29, R40).

const (
	phaseNamespace = "namespace"
	phaseCRDs      = "crds"
)

// checkNamespace tells whether the namespace has to be created. One that is
// missing and not to be created is an error; that it cannot be looked at is
// not.
func (c *Client) checkNamespace(ctx context.Context, name string, create bool) (missing bool, err error) {
	_, err = c.clientset.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil || apierrors.IsForbidden(err):
		return false, nil
	case !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look at namespace %s: %w", name, err)
	case !create:
		return false, fmt.Errorf("namespace %s does not exist: create it, or use --create-namespace", name)
	}
	return true, nil
}

func namespacePhase(name string) event.Phase {
	g := oneGroup(phaseNamespace, "namespace:"+name, plan.Object{Kind: "Namespace", Name: name})
	return event.Phase{Name: phaseNamespace, Kind: event.PhaseNamespace, Groups: []*plan.Group{g}}
}

func oneGroup(name, id string, objects ...plan.Object) *plan.Group {
	return &plan.Group{ID: id, Name: name, After: []string{}, Objects: objects, Waves: []plan.Wave{{Count: len(objects)}}}
}

// createNamespace runs the phase of the namespace.
func (p *pass) createNamespace(name string) error {
	list, _, err := p.ord.builder.build(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels:\n    name: %s\n", name, name))
	if err != nil {
		return err
	}
	for _, i := range list {
		p.ord.builder.fact(i).known = true // it has been found missing
	}
	p.begun = true
	return p.runPrelude(namespacePhase(name), list, func(i *resource.Info) error {
		_, err := p.ord.Client.Create(helmkube.ResourceList{i})
		return err
	})
}

// forgetKinds makes the next look-up of a kind, or of what the cluster can do,
// ask the cluster.
func (p *pass) forgetKinds() error {
	mapper, err := p.ord.client.getter.ToRESTMapper()
	if err != nil {
		return err
	}
	meta.MaybeResetRESTMapper(mapper)
	p.cfg.Capabilities = nil
	return nil
}

// runPrelude runs a phase whose objects carry no label of Helm's.
func (p *pass) runPrelude(phase event.Phase, list helmkube.ResourceList, send func(*resource.Info) error) error {
	for _, i := range list {
		p.ord.builder.fact(i).bare = true
	}
	p.ord.announce(phase)
	if err := p.ord.engine.Run(run.Stage{Phase: phase, Cluster: newTarget(p.ord, list, send, nil)}); err != nil {
		return fmt.Errorf("%s: %w", phase.Name, err)
	}
	return nil
}

// admitFirst waits until the first unit that Helm's action will run may start,
// since Helm writes the release record before it (R41: --step stops before the
// first write of any kind). Where a phase of the prelude was first, that has
// been waited for; a rollback does not stop before it.
func (p *pass) admitFirst() error {
	if p.begun || p.ord.opts.prefix != "" {
		return nil
	}
	for _, phase := range p.op.phases {
		if len(phase.Groups) > 0 {
			return p.ord.engine.Admit(phase.Name, phase.Groups[0])
		}
	}
	return nil
}
