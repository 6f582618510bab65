package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
)

// checkApprovals returns an error if a phase asks for approvals and nobody can give them.
func (l *library) checkApprovals(p event.Phase) error {
	for _, g := range p.Groups {
		if len(g.Approve) > 0 && l.opts.Approve == nil {
			return fmt.Errorf("%s, and this program has nobody to ask: set OrderedOptions.Approve (R42a)", phrase.ApprovalOf(g.ID, g.Approve))
		}
	}
	return nil
}

// approvals asks for the approvals of an action.
type approvals struct {
	ctx     context.Context
	approve func(context.Context, plan.Approval) (by string, err error)
	engine  *run.Engine
	state   event.State // read by consume alone

	asking sync.Mutex // held while somebody is asked
	given  map[plan.Approval]string

	mu      sync.Mutex // guards refused
	refused error
}

// refusal returns why an approval was refused, nil if none was.
func (a *approvals) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// consume asks for what a group waits for.
func (a *approvals) consume(e event.Event) {
	a.state.Apply(e)
	if g := a.state.Find(e.Phase, e.Group); e.Kind == event.KindGroup && e.Code == event.Unapproved && g != nil && a.approve != nil {
		go a.ask(g.Unit(), slices.Clone(a.state.Unapproved(g)))
	}
}

func (a *approvals) ask(u event.Unit, missing []plan.Approval) {
	a.asking.Lock()
	defer a.asking.Unlock()
	c := event.Command{Name: event.Approve, Phase: u.Phase, Group: u.Group}
	for _, m := range missing {
		by, err := a.given[m], error(nil)
		if by == "" {
			by, err = a.approve(a.ctx, m)
		}
		if err != nil {
			a.mu.Lock()
			a.refused = fmt.Errorf("%s was not approved: %w", u.Group, err)
			a.mu.Unlock()
			a.engine.Command(event.Command{Name: event.Abort, Reason: err.Error()})
			return
		}
		if a.given == nil {
			a.given = map[plan.Approval]string{}
		}
		a.given[m], c.By = by, by
	}
	a.engine.Command(c)
}
