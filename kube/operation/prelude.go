package operation

import (
	"fmt"
	"strings"
	"sync/atomic"

	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/manifest"
	"lockstep/kube/preflight"
	"lockstep/kube/session"
)

// runPrelude creates the namespace, acquires the Lease in it and applies crds/. Unlike in Helm, the namespace and crds/
// are phases of the run (R29, R40).
func (a *attempt) runPrelude(t session.Target) error {
	if t.NewNamespace {
		if err := a.createNamespace(); err != nil {
			return err
		}
	}
	if err := a.admitFirst(); err != nil {
		return err
	}
	if p := a.op.prepared; p.Last == nil || p.Info.Name == "upgrade" { // an install that replaces a revision first changes that one
		a.op.ledger.ReadOnce()
	}
	if _, err := a.acquireLockAndWriteMarks(a.op.prepared.Last); err != nil {
		return err
	}
	return a.applyCRDs(t.CRDs)
}

func (a *attempt) createNamespace() error {
	text, owned, err := a.op.prepared.NamespaceManifest()
	if err != nil {
		return err
	}
	list, _, err := a.session.Builder.Build(text)
	if err != nil {
		return err
	}
	for _, i := range list {
		a.session.Builder.Fact(i).SetAbsent() // the checks found it missing
		if owned {
			a.session.Builder.Scope().Mark(i)
		}
	}
	return a.runPreludePhase(session.NamespacePhase(a.op.prepared.Common.Namespace), list, manifest.Claims{Leave: true}, func(i *resource.Info) error {
		if a.session.Builder.Fact(i).Seen().Version != "" { // created by somebody else since
			return i.Get()
		}
		_, err := a.helm.Client.Create(helmkube.ResourceList{i})
		if err != nil {
			return err
		}
		created, err := meta.Accessor(i.Object)
		if err == nil {
			a.session.Taken.NamespaceCreated(created.GetUID())
		}
		return err
	})
}

// applyCRDs runs the phase of crds/, then drops the cached kinds.
func (a *attempt) applyCRDs(crds session.CRDs) error {
	phases := crds.Phases()
	if len(phases) == 0 {
		return nil
	}
	list, err := crds.Build(a.session.Builder)
	if err != nil {
		return err
	}
	a.session.Builder.Prefetch(a.engine.RequestContext(), list, nil)
	manifest.DropPrefetched(list)
	var applied atomic.Bool
	claims := a.session.Claims
	claims.Leave = !crds.Upgrade // the checks know whose the existing CRDs are
	err = a.runPreludePhase(phases[0], list, claims, func(i *resource.Info) error {
		if a.session.Builder.Fact(i).Seen().Version == "" {
			applied.Store(true)
			_, err := a.helm.Client.Create(helmkube.ResourceList{i})
			return err
		}
		applies, err := a.appliesExisting(crds, i)
		if err != nil {
			return err
		}
		if !applies {
			return i.Get()
		}
		applied.Store(true)
		_, err = a.helm.Client.Update(nil, helmkube.ResourceList{i}, crds.Method().Options()...)
		return err
	})
	if err != nil {
		return err
	}
	a.crdsApplied = crds.Upgrade || applied.Load()
	return a.forgetKinds()
}

// appliesExisting reports whether an existing object in crds/ is applied. It checks a CRD again that has changed since the plan; the
// write fails if it changes once more.
func (a *attempt) appliesExisting(crds session.CRDs, i *resource.Info) (applies bool, err error) {
	f := a.session.Builder.Fact(i)
	o := f.Resource.Object
	if !crds.Changed(o, f.Seen()) {
		return crds.Applies(o), nil
	}
	s, err := a.newSession()
	if err != nil {
		return false, err
	}
	applies, stays, err := preflight.RecheckCRD(s, crds, o, i)
	for _, w := range stays {
		a.session.Warn(w)
	}
	return applies, err
}

// forgetKinds drops the cached kinds and capabilities of the cluster.
func (a *attempt) forgetKinds() error {
	mapper, err := a.session.Client.Getter.ToRESTMapper()
	if err != nil {
		return err
	}
	meta.MaybeResetRESTMapper(mapper)
	a.helm.Config.Capabilities = nil
	return nil
}

// runPreludePhase runs a phase whose objects do not carry Helm's labels.
func (a *attempt) runPreludePhase(phase event.Phase, list helmkube.ResourceList, claims manifest.Claims, send func(*resource.Info) error) error {
	a.preludeStarted = true
	for _, i := range list {
		a.session.Builder.Fact(i).Unlabelled = true
	}
	session := a.session
	session.Claims = claims
	if err := a.engine.Run(run.Stage{Phase: phase, Cluster: cluster.NewApply(session, list, send, nil)}); err != nil {
		return fmt.Errorf("%s: %w", phase.Name, err)
	}
	return nil
}

// admitFirst waits until the first group may start. The Lease and the release record are written before that group, but
// --step must pause before any write (R41). After a prelude phase, and in a rollback on failure, admitFirst does not wait.
func (a *attempt) admitFirst() error {
	if a.preludeStarted || a.task.rollbackOnFailure {
		return nil
	}
	for _, phase := range a.op.prepared.Phases {
		if len(phase.Groups) > 0 {
			return a.engine.Admit(phase.Name, phase.Groups[0])
		}
	}
	return nil
}

func publishNotes(eng *run.Engine, rel *rel1.Release) {
	if rel == nil || rel.Info == nil || strings.TrimSpace(rel.Info.Notes) == "" {
		return
	}
	eng.Publish(event.Event{Kind: event.KindNotes, Lines: strings.Split(strings.TrimRight(rel.Info.Notes, "\n"), "\n")})
}
