package stack

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/text"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/session"
)

// releaseID identifies a release, whatever its context is called (S10). It is the only key of releases in this package:
// the name of a context only says how to connect.
type releaseID struct {
	place
	name string
}

// place is a namespace of a cluster.
type place struct {
	cluster   connect.ClusterID
	namespace string
}

// identity returns the identity of a release. It is known once the stack has identified its clusters.
func (m *member) identity() releaseID { return releaseID{place{m.cluster, m.Namespace}, m.Name} }

// signs asks each connection once by what its cluster is known. For a command that only reads, one that cannot be reached is known by its
// address: it stops only what needs it (S8).
func (s *Stack) signs(ctx context.Context) (clients []*connect.Client, signs []connect.Signs, err error) {
	for _, m := range s.members {
		if slices.Contains(clients, m.client) {
			continue
		}
		found, err := m.client.Signs(ctx)
		if err != nil && !s.readsOnly {
			return nil, nil, m.locate(err)
		}
		clients, signs = append(clients, m.client), append(signs, found)
	}
	return clients, signs, nil
}

// identifyClusters finds out which connections are to the same cluster. If there is only one, it sends no request.
func (s *Stack) identifyClusters(ctx context.Context) error {
	if s.oneConnection() {
		return nil
	}
	clients, signs, err := s.signs(ctx)
	if err != nil {
		return err
	}
	ids, weak := connect.ClusterIDs(signs...)
	for _, m := range s.members {
		m.cluster = ids[slices.Index(clients, m.client)]
	}
	for i, c := range clients {
		if weak[i] && slices.ContainsFunc(ids, func(id connect.ClusterID) bool { return id != ids[i] }) {
			unsure := fmt.Sprintf("the user of context %s (%s) may not read namespace kube-system, so lockstep knows its cluster only by the address of the API server",
				c.ContextName(), signs[i].Server())
			if s.opts.Prune {
				return fmt.Errorf("--prune needs to know which contexts are the same cluster, but %s; give the user permission to get "+
					"that namespace (verb get, resource namespaces, name kube-system), or omit --prune and remove old releases with: "+text.Program+" uninstall NAME", unsure)
			}
			s.warnings = append(s.warnings, plan.Warning{Rule: "S10", Message: unsure + "; no other context in the file may reach that cluster at another address"})
		}
	}
	return nil
}

// Connections returns the connection of each release of a file, for commands that only read. It returns an error if two entries
// of the file are the same release, but not if a cluster cannot be reached.
func Connections(ctx context.Context, file *helmfile.File, connectTo Connect) (all []*connect.Client, err error) {
	s := &Stack{byID: map[string]*member{}, readsOnly: true}
	s.opts.Common.PlanOnly = true // no watches
	for _, r := range file.Releases {
		s.add(newMember(r, false))
	}
	if len(s.members) == 0 {
		return nil, nil
	}
	if err := s.connect(ctx, connectTo); err != nil {
		return nil, err
	}
	if err := s.identifyClusters(ctx); err != nil {
		return nil, err
	}
	for _, m := range s.members {
		all = append(all, m.client)
	}
	return all, s.checkIdentities()
}

// InCluster returns a file for a run in the current cluster, without its contexts, which only this machine has. It returns an error for a
// release in another cluster (S10).
func InCluster(ctx context.Context, file *helmfile.File, connectTo Connect) (*helmfile.File, error) {
	if !slices.ContainsFunc(file.Releases, func(r helmfile.Release) bool { return r.ContextName() != "" }) {
		return file, nil
	}
	signs, namespaces := map[string]connect.Signs{}, map[string]string{} // by context
	read := func(name string) error {
		if _, known := signs[name]; known {
			return nil
		}
		c, err := connectTo(name)
		if err == nil {
			signs[name], err = c.Signs(ctx)
			if name != "" { // the run has that of the current one anyway
				namespaces[name] = c.Namespace()
			}
		}
		return err
	}
	if err := read(""); err != nil {
		return nil, err
	}
	for _, r := range file.Releases {
		if err := read(r.ContextName()); err != nil {
			return nil, helmfile.Locate(r.At, r.ID(), err)
		}
		ids, weak := connect.ClusterIDs(signs[""], signs[r.ContextName()])
		if ids[0] == ids[1] {
			continue
		}
		is := "is another cluster"
		if weak[0] || weak[1] {
			is = "has another address, and lockstep knows a cluster at two addresses only by namespace kube-system, which the user may not read"
		}
		return nil, fmt.Errorf("%s: release %s has kubeContext %s, which %s: a run in the cluster deploys to that cluster only; remove kubeContext, "+
			"or run without --in-cluster", r.At, r.ID(), r.ContextName(), is)
	}
	return file.WithoutContexts(namespaces)
}

// oneConnection reports whether all releases share a connection.
func (s *Stack) oneConnection() bool {
	return !slices.ContainsFunc(s.members, func(m *member) bool { return m.client != s.members[0].client })
}

// checkIdentities returns an error if two entries of the file are the same release: each run would undo one with the
// other.
func (s *Stack) checkIdentities() error {
	entries := map[releaseID]*member{}
	for _, m := range s.members {
		other := entries[m.identity()]
		if other == nil {
			entries[m.identity()] = m
			continue
		}
		a, b := other.client.ContextName(), m.client.ContextName()
		where := "context " + b
		if a != b {
			where = fmt.Sprintf("contexts %s and %s, which are the same cluster", a, b)
		}
		return fmt.Errorf("%s: release %s is already defined at %s, as %s: both are release %s in namespace %s of %s; remove one of the two entries",
			m.At, m.id, other.At, other.id, m.Name, m.Namespace, where)
	}
	return nil
}

// clusterObject is an object of a cluster.
type clusterObject struct {
	cluster connect.ClusterID
	object  plan.Object
}

// checkSharedObjects returns an error for each pair of releases that have an object in common. A hook's object belongs to no
// release, so releases that run one after another can each have it; two that may run at the same time would replace the
// other's hook while it runs. If only a rollback would run one of the hooks, and the run does not roll back on failure, it is
// a warning: a command may still roll back.
func (s *Stack) checkSharedObjects() (found []plan.Warning, errs []error) {
	type pair [2]*member
	uses, reported, unlikely, warnings := map[clusterObject][]use{}, map[pair]bool{}, []pair{}, map[pair]plan.Warning{}
	for _, m := range s.members {
		for o, here := range s.usesOf(m) {
			k := clusterObject{m.cluster, o}
			for _, other := range uses[k] {
				both, hook := pair{other.member, m}, here.hook || other.hook
				switch err := sharedObject(m, other.member, o, hook); {
				case other.member == m || reported[both] || hook && inOrder(m, other.member):
				case here.unlikely || other.unlikely:
					if !slices.Contains(unlikely, both) {
						unlikely, warnings[both] = append(unlikely, both), plan.Warning{Rule: "S10", Message: err.Error()}
					}
				default:
					reported[both] = true
					errs = append(errs, err)
				}
			}
			uses[k] = append(uses[k], here)
		}
	}
	for _, both := range unlikely {
		if !reported[both] {
			found = append(found, warnings[both])
		}
	}
	return found, errs
}

// use is the use of an object by a release.
type use struct {
	*member
	hook bool
	// unlikely is set if only a rollback would run the hook, and the run does not roll back on failure.
	unlikely bool
}

// usesOf returns the objects that the operation of a release applies, those of its hooks, and those of the hooks that its
// rollback would run.
func (s *Stack) usesOf(m *member) iter.Seq2[plan.Object, use] {
	return func(yield func(plan.Object, use) bool) {
		op := s.plannedOperation(m)
		if op == nil {
			return
		}
		for g, o := range event.Objects(op.Phases()) {
			here := use{member: m, hook: g.Phase.Kind == event.PhaseHooks}
			if isGenerated(o) || !here.hook && (m.remove || g.Phase.Kind != event.PhaseApply) {
				continue
			}
			if !yield(o, here) {
				return
			}
		}
		if s.isUnchanged(m) {
			return
		}
		undo := use{member: m, hook: true, unlikely: !s.common(m).RollbackOnFailure}
		for _, o := range event.Objects(op.RollbackHooks()) {
			if !isGenerated(o) && !yield(o, undo) {
				return
			}
		}
	}
}

// inOrder reports whether two releases never run at the same time.
func inOrder(a, b *member) bool {
	return a.remove != b.remove || a.requires(b, map[*member]bool{}) || b.requires(a, map[*member]bool{})
}

// requires reports whether a release needs another one, or one that does. It visits each release once.
func (m *member) requires(other *member, visited map[*member]bool) bool {
	if m == other || visited[m] {
		return m == other
	}
	visited[m] = true
	return slices.ContainsFunc(m.needs, func(n *member) bool { return n.requires(other, visited) })
}

// isGenerated reports whether the name of a planned object is a metadata.generateName: names end with a letter or a digit.
func isGenerated(o plan.Object) bool {
	return strings.HasSuffix(o.Name, "-") || strings.Contains(o.Name, "-#")
}

func sharedObject(m, other *member, o plan.Object, hook bool) error {
	if hook {
		return fmt.Errorf("%s: releases %s and %s may run at the same time, and both have %s, which is a hook's: one would replace it "+
			"while the other's runs; let one of the releases need the other, or remove it from one of the charts", m.At, other.id, m.id, o)
	}
	return fmt.Errorf("%s: releases %s and %s both have %s: an object can belong to only one release; "+
		"remove it from one of the charts", m.At, other.id, m.id, o)
}

// checkHandovers returns an error for each release that removes an object while another one takes it over, if nothing says which comes
// first: a removal that comes first deletes it with its data.
func (s *Stack) checkHandovers() (errs []error) {
	takers := map[clusterObject]*member{}
	for _, m := range s.members {
		if m.own != nil {
			for o := range m.own.TakenOver {
				takers[clusterObject{m.cluster, o}] = m
			}
		}
	}
	for _, m := range s.members {
		if m.own == nil || len(takers) == 0 {
			continue
		}
		for _, o := range slices.SortedFunc(maps.Keys(m.own.Removed), plan.Object.Compare) {
			if to := takers[clusterObject{m.cluster, o}]; to != nil && !m.own.Removed[o].Keeps && !inOrder(m, to) {
				errs = append(errs, fmt.Errorf("%s: release %s removes %s and release %s takes it over, in no order: it could be deleted with its data; "+
					"let %[2]s need %[4]s to hand it over, or %[4]s need %[2]s to create it again", m.At, m.id, o, to.id))
				break
			}
		}
	}
	return errs
}

// provided are the objects that releases create, by cluster.
type provided map[connect.ClusterID]*session.Provided

func (p provided) add(cluster connect.ClusterID, objects *session.Provided) {
	if p[cluster] == nil {
		p[cluster] = session.NewProvided()
	}
	p[cluster].Add(objects)
}

func (p provided) addAll(others provided) {
	for cluster, objects := range others {
		p.add(cluster, objects)
	}
}

// awaitPlans waits for the plans of the releases that a release needs, and returns what they provide. A removal comes after all
// releases that are deployed.
func (s *Stack) awaitPlans(m *member) provided {
	before := provided{}
	for _, n := range m.needs {
		<-n.prepared
		if n.err != nil {
			m.err = errDependency
		}
		before.addAll(n.provides)
	}
	for _, n := range s.members {
		if m.remove && !n.remove {
			<-n.prepared
			before.addAll(n.provides)
		}
	}
	return before
}
