package stack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/helmfile"
	"lockstep/kube/operation"
)

// assignApprovals passes --approve-before and --approve on to the releases that they name. Unlike a breakpoint, an approval
// is for one release or one group of it.
func (s *Stack) assignApprovals() error {
	before := s.assign("--approve-before", s.opts.Common.ApproveBefore, &s.approveBefore, func(m *member) *[]string { return &m.approveBefore })
	given := s.assign("--approve", s.opts.Common.Approve, &s.approved, func(m *member) *[]string { return &m.approved })
	return cmp.Or(before, given)
}

// assign adds the releases that the arguments of a flag name to own, and their groups to what of returns.
func (s *Stack) assign(flag string, texts []string, own *[]string, of func(*member) *[]string) error {
	for _, named := range texts {
		switch m, group := s.splitScope(named); {
		case m == nil:
			return fmt.Errorf("%s %s names no release; write RELEASE or RELEASE/GROUP; list both with: "+text.Program+" plan -f %s", flag, named, s.opts.File.Path)
		case group == "":
			*own = append(*own, m.id)
		default:
			*of(m) = append(*of(m), group)
		}
	}
	return nil
}

// approvalOf returns the reason for the approval that a release asks for before it is deployed: its own in the file, or
// --approve-before.
func (s *Stack) approvalOf(m *member) (reason string, asked bool) {
	if !m.remove {
		reason, asked = plan.ReadApprove(map[string]string{plan.AnnotationApprove: m.Approve})
	}
	return reason, asked || slices.Contains(s.approveBefore, m.id)
}

// approvalsOf returns who has approved a release.
func (s *Stack) approvalsOf(m *member) (given []event.Approval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.state.Approvals {
		if a.Of == m.id {
			given = append(given, a)
		}
	}
	return given
}

// checkApproved returns an error if --approve names a release that asks for no approval itself, but whose groups do: the run would wait
// for theirs.
func (s *Stack) checkApproved() error {
	for _, m := range s.members {
		if _, asked := s.approvalOf(m); asked || !slices.Contains(s.approved, m.id) || len(m.approved) > 0 || m.op == nil || m.unchanged {
			continue
		}
		if named := unapproved(m.id, m.op.Phases()); len(named) > 0 {
			return fmt.Errorf("--approve %s: release %[1]s asks for no approval itself, but its groups do; name them: --approve %s", m.id, strings.Join(named, ","))
		}
	}
	return nil
}

// unapproved returns the names of the groups of a release that ask for an approval, as in arguments.
func unapproved(release string, phases []event.Phase) (named []string) {
	for g := range event.Groups(phases) {
		if len(g.Approve) > 0 {
			named = append(named, release+"/"+g.ID)
		}
	}
	return named
}

// waitingIn returns a command for each group of a release that waits for an approval.
func waitingIn(m *member, c event.Command) (commands []event.Command) {
	for g := range m.state.GroupStates() {
		if g.Status == event.AtBreakpoint && g.Code == event.Unapproved {
			one := c
			one.Scope, one.Group = m.id, g.ID
			commands = append(commands, one)
		}
	}
	return commands
}

// askApprovals makes the groups of releases that will change wait for the approvals that these ask for, and so the hooks right
// before them.
func (s *Stack) askApprovals(groups []*plan.Group) {
	asked := map[string][]plan.Approval{}
	for _, g := range groups {
		if g.Step != nil {
			continue
		}
		m := s.byID[g.ID]
		if reason, asks := s.approvalOf(m); asks && !s.isUnchanged(m) {
			g.AskApproval(reason)
			asked[g.ID] = g.Approve
		}
	}
	for _, g := range groups {
		if g.Step != nil && (g.Step.Event == helmfile.Presync || g.Step.Event == helmfile.Preuninstall) {
			g.Approve = asked[g.Step.Release]
		}
	}
}

// ProveApprovals makes the run accept only approvals that are written to the cluster, bound to the plans of the releases (R42a).
// end deletes where they are written. Call it before Run.
func (s *Stack) ProveApprovals(ctx context.Context) (end func(), err error) {
	s.prove = func(m *member, op *operation.Operation) error {
		var release []plan.Approval
		if reason, asked := s.approvalOf(m); asked && !s.isUnchanged(m) {
			release = []plan.Approval{{Of: m.id, Reason: reason}}
		}
		end, err := op.ProveApprovals(ctx, release, s.Command)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.proofEnds = append(s.proofEnds, end)
		if err != nil {
			return fmt.Errorf("release %s: %w", m.id, err)
		}
		return nil
	}
	end = func() {
		s.mu.Lock()
		ends := slices.Clone(s.proofEnds)
		s.mu.Unlock()
		for _, end := range ends { // each sends a request
			end()
		}
	}
	for _, m := range s.members {
		if m.op == nil {
			continue
		}
		err := error(nil)
		if m.unchanged {
			err = m.op.ForgetApprovals(ctx)
		} else {
			err = s.prove(m, m.op)
		}
		if err != nil {
			end()
			return nil, err
		}
		if m.op.Info().Approvals != nil {
			s.info.Approvals = &event.ApprovalsAt{} // those of the releases say where
		}
	}
	return end, nil
}

// checkAsked returns an error if a release asks for an approval that g does not wait for: it was unchanged when the run
// was planned. op is its plan now; an approval in the cluster is only for the plan that was.
func (s *Stack) checkAsked(m *member, g *plan.Group, was, op *operation.Operation) error {
	_, asked := s.approvalOf(m)
	switch before, now := was.Info().Approvals, op.Info().Approvals; {
	case !asked || len(g.Approve) > 0 && (s.prove == nil || before != nil && now != nil && before.Plan == now.Plan):
		return nil
	case len(g.Approve) > 0:
		return fmt.Errorf("release %s has another plan now than the one that was approved: run the command again", m.id)
	}
	return fmt.Errorf("release %s asks for an approval; when this run was planned there was nothing to change, but now there is: run the command again", m.id)
}

// sendApproval approves what pauses the run: releases of the stack, or groups of running releases.
func (s *Stack) sendApproval(c event.Command) {
	s.mu.Lock()
	own := s.state.AwaitsApproval() != nil
	s.mu.Unlock()
	waiting := slices.DeleteFunc(s.running(), func(m *member) bool { return s.awaitsApproval(m) == nil })
	if own || len(waiting) == 0 {
		s.engine.Command(c)
		return
	}
	s.sendToAll(waiting, c)
}

// earlyApproval is the approval of a group of a release that has not started. It is for op, not for a new plan.
type earlyApproval struct {
	op      *operation.Operation
	command event.Command
}

// approveEarly keeps the approval of a group of a release that has not started. It refuses it where only the cluster can keep it.
func (s *Stack) approveEarly(m *member, op *operation.Operation, c event.Command) {
	asks := false
	for g := range event.Groups(op.Phases()) {
		asks = asks || g.ID == c.Group && len(g.Approve) > 0
	}
	s.mu.Lock()
	given := slices.ContainsFunc(m.approvals, func(a earlyApproval) bool { return a.op == op && a.command.Group == c.Group })
	why := ""
	switch {
	case m.started: // since sendToRelease checked
		why = fmt.Sprintf("release %s has just started: approve it again", m.id)
	case s.prove != nil || s.opts.Journal != nil:
		why = fmt.Sprintf("release %s is not running", m.id)
	case !asks:
		why = c.Group + " asks for no approval"
	case given:
		why = c.Group + " is already approved"
	default:
		later := c
		later.Scope, later.ID, later.Accepted = "", event.InternalID, nil
		m.approvals = append(m.approvals, earlyApproval{op, later})
	}
	s.mu.Unlock()
	if why != "" {
		s.refuse(c, why)
		return
	}
	s.reply(c, event.Event{Status: event.Accepted})
	if c.Accepted != nil {
		c.Accepted()
	}
}

// passApprovals gives a release that starts the approvals that came before.
func (s *Stack) passApprovals(m *member, op *operation.Operation) {
	s.mu.Lock()
	given := slices.Clone(m.approvals)
	s.mu.Unlock()
	for _, a := range given {
		if a.op == op {
			op.Command(a.command)
		}
	}
}

// awaitsApproval returns the group before which a release is paused because it is not approved, or nil.
func (s *Stack) awaitsApproval(m *member) *event.GroupState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.state.AwaitsApproval()
}

// approveFirst returns why the stack cannot resume while a release waits for an approval, "" if none does.
func (s *Stack) approveFirst() string {
	for _, m := range s.running() {
		if g := s.awaitsApproval(m); g != nil {
			return phrase.ApproveFirst(m.id + "/" + g.ID)
		}
	}
	return ""
}
