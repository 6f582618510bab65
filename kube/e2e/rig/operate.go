package rig

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rcommon "helm.sh/helm/v4/pkg/release/common"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/helmclient"
	"lockstep/kube/journal"
	"lockstep/kube/preflight"
)

// RunEveryOperation installs, upgrades, rolls back and uninstalls a chart with several kinds. It calls check with each
// outcome.
func (r *Rig) RunEveryOperation(clientSide bool, check func(Outcome)) {
	r.T.Helper()
	last := func(data string) string { return ConfigMap("last", Group("last", "seed"), data) }
	check(r.MustRun(r.Install("plain", func(i *kube.Deploy) {
		ShopLikeChart(r.T, last("version: v1"))(i)
		i.ServerSide = strconv.FormatBool(!clientSide)
	})))
	var next kube.Deploy
	ShopLikeChart(r.T, last("version: v2"))(&next)
	check(r.MustRun(r.Upgrade("plain", UseChart(next.Chart, func(u *kube.Deploy) { u.WaitForJobs = kube.AllJobs }))))
	if got := r.ConfigMapData("last")["version"]; got != "v2" {
		r.T.Errorf("after the upgrade the version is %q, want v2", got)
	}
	check(r.MustRun(r.Rollback(1)))
	if got := r.ConfigMapData("last")["version"]; got != "v1" {
		r.T.Errorf("after the rollback the version is %q, want v1", got)
	}
	r.AssertHistory("1 superseded", "2 superseded", "3 deployed")
	check(r.MustRun(r.Uninstall()))
	if left := r.Labelled(); len(left) > 0 {
		r.T.Errorf("not removed: %v", left)
	}
}

// CutWhile runs an operation through a proxy. Once an event about the object contains message, and the resource is
// watched, it cuts the connection, calls meanwhile, and restores the connection. back is when it was restored.
func (r *Rig) CutWhile(prepare func() (*kube.Operation, error), resource, object, message string, meanwhile func()) (out Outcome, back time.Time) {
	r.T.Helper()
	p, direct := NewProxy(r.T), r.Client
	r.Client = p.Client(r.T, r.Namespace)
	op, err := prepare()
	if err != nil {
		r.T.Fatal(err)
	}
	r.Client = direct
	out = r.Run(op, func(e event.Event) {
		if back.IsZero() && e.Kind == event.KindObject && e.Object.Name == object && strings.Contains(e.Message, message) {
			r.Eventually("lockstep watches "+resource, func() bool { return r.watched(resource) })
			p.Set(LinkCut)
			meanwhile()
			back = time.Now()
			p.Set(LinkUp)
		}
	})
	return out, back
}

// Prepare prepares an operation by name: install, upgrade or uninstall. change sets the chart and the timeout.
func (r *Rig) Prepare(operation string, change func(*kube.Deploy)) (*kube.Operation, error) {
	switch operation {
	case "upgrade":
		var in kube.Deploy
		change(&in)
		return r.Upgrade("plain", UseChart(in.Chart, func(u *kube.Deploy) { u.Timeout = in.Timeout }))
	case "uninstall":
		var in kube.Deploy
		change(&in)
		return r.Client.PrepareUninstall(r.T.Context(), kube.Uninstall{Common: kube.Common{Release: "t", Namespace: r.Namespace, Timeout: in.Timeout}})
	}
	return r.Install("plain", change)
}

// Must returns an operation, which must have been prepared without an error.
func (r *Rig) Must(op *kube.Operation, err error) *kube.Operation {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
	return op
}

// MustFail runs a prepared operation. It must fail with exit code 1 and a message that contains all of want, and leave
// the release failed.
func (r *Rig) MustFail(op *kube.Operation, err error, want ...string) Outcome {
	r.T.Helper()
	out := r.Run(r.Must(op, err), nil)
	if out.Err == nil || out.State.Status != event.Failed || out.State.Exit != 1 {
		r.T.Errorf("%s: %v: %s, exit %d; want failed, exit 1", op.Info().Name, out.Err, out.State.Status, out.State.Exit)
	}
	for _, part := range want {
		if !strings.Contains(out.State.Message, part) {
			r.T.Errorf("the message lacks %q: %s", part, out.State.Message)
		}
	}
	if got := r.Status(); got != rcommon.StatusFailed {
		r.T.Errorf("the release is %q, want failed", got)
	}
	return out
}

// MustRefuse checks that an operation was refused before its first write, with an error that contains all of want.
func (r *Rig) MustRefuse(since time.Time, err error, want ...string) {
	r.T.Helper()
	refusal := (*preflight.Refusal)(nil)
	if !errors.As(err, &refusal) {
		r.T.Fatalf("not refused: %v", err)
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			r.T.Errorf("the error lacks %q: %s", part, err)
		}
	}
	if w := r.WrittenSince(since); len(w) > 0 {
		r.T.Errorf("the refused operation wrote %v", w)
	}
}

// HasWarning reports whether one of the warnings of a rule contains all parts.
func (out Outcome) HasWarning(rule string, parts ...string) bool {
	return slices.ContainsFunc(out.State.Warnings, func(e event.Event) bool {
		return e.Rule == rule && !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e.Message, p) })
	})
}

// StatusTime returns when a group of the apply phase last got a status, or zero if it never did.
func (out Outcome) StatusTime(group string, s event.Status) (at time.Time) {
	for _, e := range out.Events {
		if e.Kind == event.KindGroup && e.Phase == helmclient.PhaseApply && e.Group == group && e.Status == s {
			at = e.Time
		}
	}
	return at
}

// EndedGroups returns the ids of the groups in the order in which they ended.
func (out Outcome) EndedGroups() (ids []string) {
	for _, e := range out.Events {
		if e.Kind == event.KindGroup && e.Status.Over() && !slices.Contains(ids, e.Group) {
			ids = append(ids, e.Group)
		}
	}
	return ids
}

// MustRun runs a prepared operation that must succeed.
func (r *Rig) MustRun(op *kube.Operation, err error) Outcome {
	r.T.Helper()
	out := r.Run(r.Must(op, err), nil)
	if out.Err != nil || out.State.Status != event.Succeeded || out.State.Exit != 0 {
		r.T.Fatalf("%s: %v, %s, exit %d", op.Info().Name, out.Err, out.State.Status, out.State.Exit)
	}
	return out
}

func (r *Rig) Upgrade(chart string, change func(*kube.Deploy)) (*kube.Operation, error) {
	up := kube.Deploy{Common: r.Common(), ChartOptions: kube.ChartOptions{Chart: LoadChart(r.T, chart), Values: r.Values(chart)}}
	if change != nil {
		change(&up)
	}
	return r.Client.PrepareUpgrade(r.T.Context(), up)
}

func (r *Rig) Rollback(to int) (*kube.Operation, error) {
	return r.Client.PrepareRollback(r.T.Context(), kube.Rollback{Common: r.Common(), Revision: to})
}

func (r *Rig) Uninstall() (*kube.Operation, error) {
	return r.Client.PrepareUninstall(r.T.Context(), kube.Uninstall{Common: r.Common()})
}

// OpenJournal opens the journal in a store, as the next pod of a Job does.
func OpenJournal(t *testing.T, store journal.Store) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), store, "")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Store is a journal.Store in memory.
type Store struct{ data []byte }

func (s *Store) Load(context.Context) ([]byte, error) { return s.data, nil }
func (s *Store) Save(_ context.Context, data []byte) error {
	s.data = data
	return nil
}
