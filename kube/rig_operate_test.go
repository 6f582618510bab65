package kube

import (
	"slices"
	"strings"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/kube/helmclient"
)

// prepare prepares an operation of a name.
func (r *rig) prepare(operation string, change func(*Install)) (*Operation, error) {
	switch operation {
	case "upgrade":
		var in Install
		change(&in)
		return r.upgrade("plain", useUp(in.Chart, func(u *Upgrade) { u.Timeout = in.Timeout }))
	case "uninstall":
		var in Install
		change(&in)
		return r.client.PrepareUninstall(r.t.Context(), Uninstall{Common: Common{Release: "t", Namespace: r.namespace, Timeout: in.Timeout}})
	}
	return r.install("plain", change)
}

// mustFail runs a prepared operation that must fail with exit code 1, say all
// of want, and leave the release failed.
func (r *rig) mustFail(op *Operation, err error, want ...string) outcome {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.run(op, nil)
	if out.err == nil || out.state.Status != event.Failed || out.state.Exit != 1 {
		r.t.Errorf("%s: %v: %s, exit %d; it should have failed", op.Info().Name, out.err, out.state.Status, out.state.Exit)
	}
	for _, part := range want {
		if !strings.Contains(out.state.Message, part) {
			r.t.Errorf("the message does not say %q: %s", part, out.state.Message)
		}
	}
	if got := r.status(); got != rcommon.StatusFailed {
		r.t.Errorf("the release is %q, want failed", got)
	}
	return out
}

// says reports whether a warning of a rule says all parts.
func (out outcome) says(rule string, parts ...string) bool {
	return slices.ContainsFunc(out.state.Warnings, func(e event.Event) bool {
		return e.Rule == rule && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e.Message, p) })
	})
}

// at is when a group of the apply phase got into a status, zero for never.
func (out outcome) at(group string, s event.Status) (at time.Time) {
	for _, e := range out.events {
		if e.Kind == event.KindGroup && e.Phase == helmclient.PhaseApply && e.Group == group && e.Status == s {
			at = e.Time
		}
	}
	return at
}

// ended lists the groups of the phases in the order in which they ended.
func (out outcome) ended() (ids []string) {
	for _, e := range out.events {
		if e.Kind == event.KindGroup && e.Status.Over() && !slices.Contains(ids, e.Group) {
			ids = append(ids, e.Group)
		}
	}
	return ids
}

// mustRun runs a prepared operation that must succeed.
func (r *rig) mustRun(op *Operation, err error) outcome {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	out := r.run(op, nil)
	if out.err != nil || out.state.Exit != 0 {
		r.t.Fatalf("%s: %v, exit %d", op.Info().Name, out.err, out.state.Exit)
	}
	return out
}

func (r *rig) upgrade(chart string, change func(*Upgrade)) (*Operation, error) {
	up := Upgrade{Common: r.common(), Rendering: Rendering{Chart: loadChart(r.t, chart), Values: r.values(chart)}}
	if change != nil {
		change(&up)
	}
	return r.client.PrepareUpgrade(r.t.Context(), up)
}

func (r *rig) rollback(to int) (*Operation, error) {
	return r.client.PrepareRollback(r.t.Context(), Rollback{Common: r.common(), Revision: to})
}

func (r *rig) uninstall() (*Operation, error) {
	return r.client.PrepareUninstall(r.t.Context(), Uninstall{Common: r.common()})
}
