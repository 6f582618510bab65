package sample

import (
	"errors"
	"time"

	"lockstep/engine"
)

// operation is what the sample does.
var operation = engine.Operation{
	Name: "install", Release: "shop", Namespace: "shop", Context: "kind-dev", Chart: "shop-1.0.0", Revision: 1,
	Timeout: 5 * time.Minute, ReadinessTimeout: time.Minute,
}

// Start begins an installation of the shop and returns the engine that runs it.
// Operation, Diagnose and Heartbeat of the options are the sample's own. The
// feed is closed when it is over.
func Start(opts engine.Options, script map[string]Behaviour) *engine.Engine {
	opts.Operation, opts.Diagnose, opts.Heartbeat = operation, diagnose, 5*time.Second
	e := engine.New(opts)
	go run(e, NewCluster(script))
	return e
}

func run(e *engine.Engine, cluster *Cluster) {
	all := phases()
	e.Announce(all...)
	object := engine.Object{Kind: "Deployment", Namespace: "shop", Name: "shop-cache"}
	e.Publish(engine.Event{Kind: engine.KindWarning, Rule: "R9", Object: &object,
		Message: "shop/cache: group \"store\" has no edge in or out: its resources are unsequenced"})
	for _, p := range all {
		stage := engine.Stage{Phase: p, Cluster: cluster, Readiness: time.Minute, Await: func(g *engine.Group) bool {
			return g.ID != "shop:ingress"
		}}
		if err := e.Start(stage).Wait(); err != nil {
			finish(e, cluster, err)
			return
		}
	}
	e.Finish(engine.End{Status: engine.Succeeded})
}

// finish ends a run that did not go well, with a rollback where that was asked
// for.
func finish(e *engine.Engine, cluster *Cluster, err error) {
	abort := e.Verdict().Abort
	switch {
	case abort == nil:
		e.Finish(engine.End{Status: engine.Failed, Message: err.Error(), Exit: 1})
	case abort.Name != engine.Rollback:
		e.Finish(engine.End{Status: engine.Aborted, Message: "kept what is there", Exit: 3})
	default:
		undo := operation
		undo.Name = "uninstall"
		e.BeginRollback(undo, "aborted: uninstalling")
		apply := phases()[2].Groups
		remove := engine.Phase{Name: "rollback/remove", Kind: engine.PhaseRemove, Groups: reversed(apply[:7])}
		e.Announce(remove)
		message := "rolled back: uninstalled"
		if err := e.Start(engine.Stage{Phase: remove, Cluster: cluster}).Wait(); errors.Is(err, engine.ErrAborted) {
			message = "the rollback was stopped"
		}
		e.Finish(engine.End{Status: engine.Aborted, Message: message, Exit: 3})
	}
}
