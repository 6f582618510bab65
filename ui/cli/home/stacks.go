package home

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/ui/home"
	"lockstep/ui/report"
)

// The stacks whose releases home shows, wherever they are: the last ones, if they have been deployed lately.
const (
	maxStacks = 3
	lately    = 24 * time.Hour
)

// lastStacks returns the last run of each stack of this machine in the cluster of a context, unless it removed the stack.
func lastStacks(context string, now time.Time) (all []home.Stack) {
	dir, err := report.RunDir()
	if err != nil {
		return nil // there are no records
	}
	var seen []string
	for _, r := range report.RecordedRuns(dir) { // the newest first
		if now.Sub(r.Started) > lately || len(all) == maxStacks {
			break
		}
		if r.Namespace != "" || slices.Contains(seen, r.Release) {
			continue
		}
		path, err := report.FindRun(dir, r.Name)
		if err != nil {
			continue
		}
		members := membersOf(path, context)
		if len(members) == 0 {
			continue
		}
		seen = append(seen, r.Release)
		if r.Operation != "down" || event.Status(r.Outcome) != event.Succeeded {
			all = append(all, home.Stack{Name: r.Release, Operation: r.Operation, Status: r.Ending(), By: r.By, Record: r.Name,
				Ended: r.Started.Add(time.Duration(r.Seconds * float64(time.Second))), Members: members})
		}
	}
	return all
}

// membersOf returns the releases in the record of a stack's run that are in the cluster of a context, in their order. It reads the
// record up to the plan of the stack, which follows those of its releases.
func membersOf(path, context string) (members []home.Key) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	elsewhere := map[string]bool{}
	decoder := json.NewDecoder(bufio.NewReader(f))
	for {
		var e event.Event
		switch err := decoder.Decode(&e); {
		case err != nil:
			return nil
		case e.Kind == event.KindPlan && e.Scope != "" && e.Operation != nil:
			elsewhere[e.Scope] = e.Operation.Context != context
		case e.Kind == event.KindPlan && e.Scope == "":
			for g, o := range event.Objects(e.Phases) {
				if o.Group == "helm.sh" && o.Kind == "Release" && !elsewhere[g.ID] && !isElsewhere(g.ID, context) {
					members = append(members, home.Key{Namespace: o.Namespace, Name: o.Name})
				}
			}
			return members
		}
	}
}

// isElsewhere reports whether the ID of a stack's release names another context.
func isElsewhere(id, context string) bool {
	parts := strings.Split(id, "/")
	return len(parts) > 2 && strings.Join(parts[:len(parts)-2], "/") != context
}

// outside follows the releases of stacks in the namespaces that are not shown.
type outside struct {
	client  *kube.Client
	shown   string // the namespace that is shown, "" for all
	changed func()

	mu        sync.Mutex
	overviews map[string]*kube.Overview // by namespace
	rows      map[string][]kube.ReleaseRow
}

// follow follows the namespaces of stacks that are not followed yet, until ctx is done. Without the right to, their releases are not
// shown.
func (o *outside) follow(ctx context.Context, stacks []home.Stack) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range stacks {
		for _, k := range s.Members {
			if o.shown == "" || k.Namespace == o.shown || o.overviews[k.Namespace] != nil {
				continue
			}
			overview := o.client.Overview(k.Namespace)
			o.overviews[k.Namespace] = overview
			go func() {
				_ = overview.Follow(ctx, func(rows []kube.ReleaseRow, _ bool, _ error) {
					o.mu.Lock()
					o.rows[k.Namespace] = rows
					o.mu.Unlock()
					o.changed()
				})
			}()
		}
	}
}

// releases returns the releases of stacks that are not in the namespace that is shown.
func (o *outside) releases(stacks []home.Stack) (all []home.Release) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, rows := range o.rows {
		for _, r := range rows {
			if slices.ContainsFunc(stacks, func(s home.Stack) bool { return slices.Contains(s.Members, home.Key(r.Key)) }) {
				all = append(all, releaseRow(r))
			}
		}
	}
	return all
}

// need says which releases are in view, and which one is selected.
func (o *outside) need(releases []kube.ReleaseKey, selected kube.ReleaseKey) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for namespace, overview := range o.overviews {
		isHere := func(k kube.ReleaseKey) bool { return k.Namespace == namespace }
		overview.Want(slices.DeleteFunc(slices.Clone(releases), func(k kube.ReleaseKey) bool { return !isHere(k) }))
		if !isHere(selected) {
			overview.Select(kube.ReleaseKey{})
			continue
		}
		overview.Select(selected)
	}
}
