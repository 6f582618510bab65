package operation

import (
	"context"
	"errors"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/preview"
)

// previewers preview the objects of the operation and of its rollback.
type previewers struct {
	main     *preview.Previewer // nil until the first preview
	rollback *preview.Previewer // nil until the rollback starts
}

// previewer returns the previewer for a unit.
func (op *Operation) previewer(u event.Unit) (*preview.Previewer, error) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if event.IsRollback(u.Phase) {
		if op.previewers.rollback == nil {
			return nil, errors.New("the rollback is not planned until it starts")
		}
		return op.previewers.rollback, nil
	}
	if op.previewers.main == nil {
		op.previewers.main = preview.NewPreviewer(op.client, op.running.prepared)
	}
	return op.previewers.main, nil
}

// Change returns the change that Run makes to an object of a unit. It sends two requests at most, or a few more if
// the object changes meanwhile, and writes nothing. It may be called before, during and after Run.
func (op *Operation) Change(ctx context.Context, u event.Unit, kind event.PhaseKind, o plan.Object) (preview.Change, error) {
	p, err := op.previewer(u)
	if err != nil {
		return preview.Change{}, err
	}
	c, err := p.Change(ctx, u, kind, o)
	return c.Masked(op.Mask().Text), op.Mask().Error(err)
}

// Sent returns an object of a unit as Run sends it, as YAML with secret values masked. The error is a
// preview.NothingSent if the object is only deleted.
func (op *Operation) Sent(ctx context.Context, u event.Unit, kind event.PhaseKind, o plan.Object) (string, error) {
	p, err := op.previewer(u)
	if err != nil {
		return "", err
	}
	text, err := p.Sent(ctx, u, kind, o)
	return op.Mask().Text(text), op.Mask().Error(err)
}
