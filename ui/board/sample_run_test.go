package board

import (
	"errors"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// operation is the operation of the sample.
var operation = event.Operation{
	Name: "install", Release: "shop", Namespace: "shop", Context: "kind-dev", Chart: "shop-1.0.0", Revision: 1,
	Timeout: 5 * time.Minute, ReadinessTimeout: time.Minute,
}

// Start starts an installation of the shop and returns its engine. It sets Operation, Diagnose and
// Heartbeat of the options itself. The feed is closed when the run is over.
func Start(opts run.Options, script map[string]Behaviour) *run.Engine {
	opts.Operation, opts.Diagnose, opts.Heartbeat = operation, diagnose, 5*time.Second
	e := run.New(opts)
	go carryOut(e, NewCluster(script))
	return e
}

func carryOut(e *run.Engine, cluster *Cluster) {
	all := phases()
	e.Announce(all...)
	object := plan.Object{Kind: "Deployment", Namespace: "shop", Name: "shop-cache"}
	e.Publish(event.Event{Kind: event.KindWarning, Rule: "R9", Object: &object,
		Message: "shop/cache: group \"store\" waits for no group, and none waits for it, so it is deployed last, after all other groups of this chart; if its order matters, let it wait for a group, or let a group wait for it"})
	for _, p := range all {
		stage := run.Stage{Phase: p, Cluster: cluster, ObjectTimeout: time.Minute, Await: func(g *plan.Group) bool {
			return g.ID != "shop:ingress"
		}}
		if err := e.Start(stage).Wait(); err != nil {
			finish(e, cluster, err)
			return
		}
	}
	if err := e.Finish(run.End{Status: event.Succeeded}); err != nil {
		finish(e, cluster, err)
	}
}

// finish ends a run that failed, with a rollback if one was requested.
func finish(e *run.Engine, cluster *Cluster, err error) {
	abort := e.EndingCommand()
	switch {
	case abort == nil:
		if err := e.Finish(run.End{Status: event.Failed, Message: err.Error(), Exit: 1}); err != nil {
			finish(e, cluster, err)
		}
	case abort.Name != event.Rollback:
		e.Finish(run.End{Status: event.Aborted, Message: "existing objects were kept", Exit: 3})
	default:
		undo := operation
		undo.Name = "uninstall"
		if e.StartRollback(undo, "aborted: uninstalling") != nil {
			e.Finish(run.End{Status: event.Aborted, Message: "existing objects were kept", Exit: 3})
			return
		}
		apply := phases()[2].Groups
		remove := event.Phase{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: reversed(apply[:7])}
		e.Announce(remove)
		message := "rolled back: uninstalled"
		if err := e.Start(run.Stage{Phase: remove, Cluster: cluster}).Wait(); errors.Is(err, run.ErrAborted) {
			message = "the rollback was stopped"
		}
		e.Finish(run.End{Status: event.Aborted, Message: message, Exit: 3})
	}
}
