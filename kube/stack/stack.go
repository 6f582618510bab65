// Package stack runs the releases of a helmfile as one operation. It plans an operation for each
// release and runs them with a run.Engine. The groups of that engine are releases, and each of its requests
// is a whole operation. The central types are Options and Stack. Only package kube imports it.
package stack

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/journal"
	"lockstep/kube/mask"
	"lockstep/kube/operation"
	"lockstep/kube/planfile"
	"lockstep/kube/session"
)

// Connect returns the connection for a context, "" for the current one. It is called once per context.
type Connect = func(context string) (*connect.Client, error)

// Options configure a Stack.
type Options struct {
	File *helmfile.File
	// Down uninstalls all releases, in reverse order of their needs.
	Down bool
	// Load loads the chart of a release. It also sets the options that the file has for it.
	Load func(context.Context, helmfile.Release) (operation.ChartOptions, error)
	// SavedPlan is the plan that the run must follow (R55), nil for none.
	SavedPlan *planfile.File
	// Common are the options of all operations. Each release has its own name, namespace and perhaps timeout.
	Common operation.Common
	// Name, if set, labels the release records of the stack, so that a later Prune finds them.
	Name string
	// Prune uninstalls releases labeled with Name that the file no longer defines, in the namespaces of the file's releases
	// and in PruneNamespaces. ConfirmPrune pauses the run before it does.
	Prune, ConfirmPrune bool
	PruneNamespaces     []string
	// Journal is what the run keeps for the pod that replaces this one, nil outside a cluster.
	Journal *journal.Journal
	// Hooks says whether the hooks of the file, which are programs on this machine or images in the cluster, run (S11a).
	Hooks HookPolicy
	// TraceEnv is added to the environment of hooks: it says what they are a part of. It may be nil.
	TraceEnv func(event.Unit) map[string]string
	// Earlier returns the state at the end of the last run with an event.Operation.Identity, as its record has it, or nil. It may be
	// nil.
	Earlier func(identity string) *event.State
	// Concurrency limits how many releases run at the same time; 0 is no limit.
	Concurrency int
}

// Stack is a prepared operation on the releases of a helmfile. Run runs it.
type Stack struct {
	opts    Options
	info    event.Operation
	members []*member // in the order of the file
	byID    map[string]*member
	watches []*cluster.Watches
	// steps are the hooks of the file at the events of the run, in the order of the file.
	steps []*step
	run   string // identifies the run for Jobs of steps, in all pods of a run in the cluster
	// earlier is the last run of the file, nil if it is unknown.
	earlier *event.State
	// warnings are about the stack itself, not about one of its releases.
	warnings []plan.Warning
	// readsOnly is set for a command that only reads: it shows what it can if a cluster is away.
	readsOnly bool
	// unplanned is why this pod of a Job cannot plan the run that an earlier one began; nil if it can.
	unplanned error
	// approveBefore and approved are the ids of releases from --approve-before and --approve.
	approveBefore, approved []string
	feed                    event.Feed
	// prove makes an operation accept only approvals that are written to the cluster; nil if it takes commands, too.
	prove func(*member, *operation.Operation) error

	mu     sync.Mutex // guards the fields below
	engine *run.Engine
	queued []event.Command
	state  event.State // of the stack's own events
	active []*member   // those whose operations are running, in the order in which they started
	// stepNext lets the next release start with one group while the run is paused. pausedBy is the
	// release whose pause or held failure paused the run.
	stepNext    bool
	pausedBy    *member
	rollingBack bool      // set when the rollback starts
	toUndo      []*member // what the rollback covers
	ran         int       // operations that have started or ended
	proofEnds   []func()  // of prove
	ranStep     bool      // a program was started
}

// member is a release of the stack with its operation.
type member struct {
	helmfile.Release
	id     string
	remove bool
	pruned bool // not defined by the file
	needs  []*member
	client *connect.Client
	// cluster is the same for all contexts of a cluster.
	cluster connect.ClusterID
	// watches are shared by all releases of a context; nil with PlanOnly.
	watches *cluster.Watches
	locking sync.Mutex // of lockRelease
	planned
	// prepared is closed once planned is filled in.
	prepared chan struct{}

	report  func(run.Observation) // reports progress to the stack's engine
	state   event.State           // state of its operation, guarded by Stack.mu
	ended   event.Event           // with which its operation succeeded, guarded by Stack.mu
	blamed  *blamed               // whose diagnosis is that of the release, nil for none, guarded by Stack.mu
	breakOn []string              // --break-on for its groups
	// approveBefore and approved are --approve-before and --approve for its groups.
	approveBefore, approved []string
	// breakpoints are set on its groups, by ID, when it starts: event.Set or event.Disabled.
	breakpoints map[string]event.Status
	approvals   []earlyApproval      // guarded by Stack.mu
	restored    bool                 // breakpoints are those that an earlier pod has kept
	skipped     bool                 // because it was unchanged
	started     bool                 // its operation has started
	unwritten   bool                 // its operation ended before its first write
	result      error                // of its operation
	rolledBack  bool                 // by the rollback of the stack, or left alone by it (R51b)
	rollback    *operation.Operation // of the rollback of the stack, nil until it starts
	// current is the check or the rollback that runs or was the last to run, nil for op.
	current *operation.Operation
	// notReady and changed are what the last check found: that the release is not ready, or objects of an unchanged release
	// that somebody else has changed.
	notReady bool
	changed  []plan.Object
	why      string // event.ReleaseResult.Reason, guarded by Stack.mu
	look     look
}

func newMember(r helmfile.Release, remove bool) *member {
	return &member{Release: r, id: r.ID(), remove: remove, breakpoints: map[string]event.Status{}, prepared: make(chan struct{})}
}

func (s *Stack) add(m *member) { s.members, s.byID[m.id] = append(s.members, m), m }

// planned is the plan of a release.
type planned struct {
	op        *operation.Operation // nil if there is nothing to remove
	own       *session.Provided    // nil for a removal
	provides  provided             // with those of the releases that it needs
	unchanged bool                 // guarded by Stack.mu while the stack runs
	err       error
}

// Release is a planned release of a stack.
type Release struct {
	ID string
	// Operation is nil if there is nothing to do.
	Operation *operation.Operation
	Needs     []string
	Remove    bool
	// Pruned releases are removed because the file no longer defines them.
	Pruned bool
	// Cluster is the cluster of the release, and Client its connection.
	Cluster connect.ClusterID
	Client  *connect.Client
	// Unchanged releases are skipped (S4).
	Unchanged bool
}

// Names of the phases of a stack.
const (
	phasePrepare   = helmfile.Prepare
	phaseCleanup   = helmfile.Cleanup
	phaseReleases  = "releases"
	phaseRemove    = "remove"
	phaseRollback  = event.RollbackPrefix + phaseReleases
	phaseUninstall = event.RollbackPrefix + phaseRemove // a rollback of first installs only
)

// Feed returns the events of the operation. It ends when Run returns.
func (s *Stack) Feed() *event.Feed { return &s.feed }

// Info describes the operation and the file.
func (s *Stack) Info() event.Operation { return s.info }

// Mask returns the mask for the secret values of all releases, which their operations share (S14).
func (s *Stack) Mask() *mask.Mask { return s.opts.Common.Mask }

// Releases returns the planned releases in the order of the file.
func (s *Stack) Releases() (out []Release) {
	for _, m := range s.members {
		r := Release{ID: m.id, Operation: s.plannedOperation(m), Remove: m.remove, Pruned: m.pruned, Unchanged: s.isUnchanged(m), Cluster: m.cluster, Client: m.client}
		for _, n := range m.needs {
			r.Needs = append(r.Needs, n.id)
		}
		out = append(out, r)
	}
	return out
}

// Phases returns the releases as groups: a phase with those to deploy, then one with those to remove. Hooks are groups, too:
// before and after their releases, or in phases before and after all.
func (s *Stack) Phases() (phases []event.Phase) {
	deploy, remove := s.split()
	for _, p := range []event.Phase{
		{Name: phasePrepare, Kind: event.PhaseHooks, Groups: chain(s.preparing())},
		{Name: phaseReleases, Kind: event.PhaseApply, Groups: s.withSteps(makeGroups(deploy, false), s.planned)},
		{Name: phaseRemove, Kind: event.PhaseRemove, Groups: s.withSteps(makeGroups(remove, true), s.planned)},
		{Name: phaseCleanup, Kind: event.PhaseHooks, Groups: chain(s.cleaning())},
	} {
		if len(p.Groups) > 0 {
			s.askApprovals(p.Groups)
			phases = append(phases, p)
		}
	}
	return phases
}

// split returns the members to deploy and those to remove.
func (s *Stack) split() (deploy, remove []*member) {
	for _, m := range s.members {
		if m.remove {
			remove = append(remove, m)
		} else {
			deploy = append(deploy, m)
		}
	}
	return deploy, remove
}

// orderByNamespaces lets the removal of a release that contains a namespace wait for those of the releases in it: until then,
// lockstep would keep the namespace (R31a). A need the other way round is stronger: then the namespace stays, with a warning.
func (s *Stack) orderByNamespaces() {
	_, remove := s.split()
	for _, m := range remove {
		if m.op == nil {
			continue
		}
		for g, o := range event.Objects(m.op.Phases()) {
			if g.Phase.Kind != event.PhaseRemove || o.GroupKind() != (plan.GroupKind{Kind: "Namespace"}) {
				continue
			}
			var inside []string
			for _, in := range remove {
				if in == m || in.Namespace != o.Name || in.cluster != m.cluster || slices.Contains(in.needs, m) {
					continue
				}
				if in.needs = append(in.needs, m); cycle(s.members) != nil {
					in.needs = in.needs[:len(in.needs)-1]
					inside = append(inside, in.id)
				}
			}
			if len(inside) > 0 {
				s.warnings = append(s.warnings, plan.Warning{Rule: "S9", Object: &o, Message: fmt.Sprintf(
					"namespace %s stays: %s, which contains it, needs %s in it, and is uninstalled first; afterwards, delete it with: kubectl delete namespace %[1]s",
					o.Name, m.id, strings.Join(inside, ", "))})
			}
		}
	}
}

// makeGroups returns members as groups, ordered by their needs. If reverse is set, a release comes after the releases that
// need it.
//
// Rule S9: releases are removed in reverse order.
func makeGroups(members []*member, reverse bool) []*plan.Group {
	byID := map[string]*plan.Group{}
	var all []*plan.Group
	for _, m := range members {
		g := &plan.Group{
			ID: m.id, Chart: m.id, Name: m.Name, After: []string{}, Objects: []plan.Object{m.object()}, Waves: []plan.Wave{{Count: 1}},
			ContinueOnError: m.ContinueOnError,
		}
		byID[m.id], all = g, append(all, g)
	}
	for _, m := range members {
		for _, n := range m.needs {
			from, to := byID[m.id], byID[n.id]
			if reverse {
				from, to = to, from
			}
			if from != nil && to != nil && !slices.Contains(from.After, to.ID) {
				from.After = append(from.After, to.ID)
			}
		}
	}
	return inLayers(all)
}

// inLayers sets the layers of groups and sorts them by these.
func inLayers(all []*plan.Group) []*plan.Group {
	layers := plan.Layers(all)
	for _, g := range all {
		g.Layer = layers[g.ID]
		slices.Sort(g.After)
	}
	slices.SortStableFunc(all, func(a, b *plan.Group) int { return a.Layer - b.Layer })
	return all
}

// object returns the object that represents the release in its group.
func (m *member) object() plan.Object {
	return plan.Object{Group: "helm.sh", Kind: "Release", Namespace: m.Namespace, Name: m.Name}
}

// OwnWarnings returns the warnings about the stack itself, not about one of its releases.
func (s *Stack) OwnWarnings() []plan.Warning { return s.warnings }

// Warnings returns the warnings of all releases.
func (s *Stack) Warnings() (all []plan.Warning) {
	for _, m := range s.members {
		if m.op == nil {
			continue
		}
		for _, w := range m.op.Warnings() {
			w.Message = m.id + ": " + w.Message
			all = append(all, w)
		}
	}
	return all
}

// Close ends the watches. Run calls it, so callers need it only for a stack that they do not run.
func (s *Stack) Close() {
	for _, w := range s.watches {
		w.Close()
	}
}

// cycle returns the IDs of releases that need each other in a cycle, the first one again at the end, or nil.
func cycle(members []*member) []string {
	state := map[*member]int{} // 1 during the visit, 2 after it
	var path []string
	var visit func(m *member) bool
	visit = func(m *member) bool {
		switch state[m] {
		case 1:
			path = append(path, m.id)
			return true
		case 2:
			return false
		}
		state[m] = 1
		path = append(path, m.id)
		if slices.ContainsFunc(m.needs, visit) {
			return true
		}
		path, state[m] = path[:len(path)-1], 2
		return false
	}
	for _, m := range members {
		if visit(m) {
			return path[slices.Index(path, path[len(path)-1]):]
		}
	}
	return nil
}
