package stack

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/cluster"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/mask"
	"lockstep/kube/operation"
	"lockstep/kube/readiness"
	"lockstep/kube/session"
)

// Prepare plans and checks the operations of all releases. It writes nothing. Its error joins the errors of all releases.
// It starts watches, which end when Close is called or ctx is done.
//
// Rule S3: everything is rendered, planned and checked before the first write. Objects that a
// release creates count as present for releases that need it.
func Prepare(ctx context.Context, opts Options, connectTo Connect) (*Stack, error) {
	s := &Stack{opts: opts, byID: map[string]*member{}, run: cmp.Or(opts.Common.Job, rand.Text())}
	s.info = event.Operation{Name: "up", Release: Name(opts.File), Chart: opts.File.Path, By: opts.Common.StartedBy()}
	if path, err := filepath.Abs(opts.File.Path); err == nil && opts.File.Path != "-" {
		s.info.File = path
	}
	if opts.Down {
		s.info.Name = "down"
	}
	if s.opts.Common.Mask == nil {
		s.opts.Common.Mask = &mask.Mask{}
	}
	s.feed.Mask = s.Mask().Event
	if err := s.prepare(ctx, connectTo); err != nil {
		s.Close()
		return nil, s.Mask().Error(err)
	}
	return s, nil
}

func (s *Stack) prepare(ctx context.Context, connectTo Connect) error {
	if err := s.checkOptions(); err != nil {
		return err
	}
	if err := s.addMembers(); err != nil {
		return err
	}
	if err := s.connect(ctx, connectTo); err != nil {
		return err
	}
	for _, m := range s.members {
		m.client.CacheAll() // releases read the same objects
	}
	if err := s.identifyClusters(ctx); err != nil {
		return err
	}
	if err := s.checkIdentities(); err != nil {
		return err
	}
	s.addSteps()
	if err := s.findEarlier(ctx); err != nil {
		return err
	}
	notPruned := s.addPruned(ctx)
	s.restoreBreakpoints()
	s.assignBreakpoints()
	if err := s.assignApprovals(); err != nil {
		return err
	}
	notPlanned := s.planAll(ctx)
	s.findStarts()
	if err := errors.Join(s.opts.Journal.Err(), notPruned, notPlanned); err != nil {
		if slices.ContainsFunc(s.members, (*member).changedEarlier) {
			s.unplanned = err // Run ends what an earlier pod began (S13)
			return nil
		}
		return err
	}
	if err := s.checkApproved(); err != nil {
		return err
	}
	s.orderByNamespaces()
	if err := s.checkSteps(); err != nil {
		return err
	}
	if err := s.checkJobs(ctx); err != nil {
		return err
	}
	if err := s.checkSavedPlan(); err != nil {
		return err
	}
	return s.resolveBreakpoints()
}

// Order returns the releases of a helmfile as ordered groups, without a cluster.
func Order(file *helmfile.File) ([]*plan.Group, error) {
	s := &Stack{opts: Options{File: file}, byID: map[string]*member{}}
	if err := s.addMembers(); err != nil {
		return nil, err
	}
	deploy, _ := s.split()
	s.addSteps()
	if err := s.findCommands(anyStep); err != nil {
		return nil, err
	}
	order := s.aroundAll(s.withSteps(makeGroups(deploy, false), anyStep))
	for _, g := range order {
		g.Objects, g.Waves = []plan.Object{}, nil
	}
	return order, nil
}

// Name returns a short name for a helmfile: its file name, the name of its directory if the file name is
// a default one, or "stack" for standard input.
func Name(file *helmfile.File) string {
	path := file.Path
	if path == "-" {
		return "stack"
	}
	base := filepath.Base(path)
	if strings.HasPrefix(base, "helmfile.") {
		if abs, err := filepath.Abs(path); err == nil {
			base = filepath.Base(filepath.Dir(abs))
		}
	}
	if base == string(filepath.Separator) { // the root of the file system has no name
		return "stack"
	}
	return base
}

func (s *Stack) addMembers() error {
	for _, r := range s.opts.File.Releases {
		s.add(newMember(r, s.opts.Down || !r.Installed))
	}
	if len(s.members) == 0 {
		return NoReleases(s.opts.File)
	}
	for _, m := range s.members {
		for _, id := range slices.Concat(m.Needs, m.After) {
			if n := s.byID[id]; n != nil && n.remove == m.remove && !slices.Contains(m.needs, n) {
				m.needs = append(m.needs, n)
			}
		}
	}
	if c := cycle(s.members); c != nil {
		return fmt.Errorf("%s: releases need each other in a cycle: %s; remove one of these needs entries", s.opts.File.Source(), strings.Join(c, " → "))
	}
	return nil
}

// NoReleases is the error about a helmfile of which no release is selected.
func NoReleases(file *helmfile.File) error {
	why := "the helmfile defines no releases"
	switch {
	case len(file.Others) > 0 && len(file.Selectors) > 0:
		why = "no release matches --selector " + strings.Join(file.Selectors, " --selector ")
	case len(file.Others) > 0:
		why = "the conditions of all releases are false"
	}
	return fmt.Errorf("%s: %s", file.Source(), why)
}

// connect opens a connection to each context.
//
// Rule S8: each context has its own connection and watches. Which contexts are the same cluster is
// found out later (S10): their users may differ.
func (s *Stack) connect(ctx context.Context, connectTo Connect) error {
	clients, watches := map[string]*connect.Client{}, map[string]*cluster.Watches{}
	for _, m := range s.members {
		if name := m.ContextName(); clients[name] == nil {
			c, err := connectTo(name)
			if err != nil {
				return m.locate(err)
			}
			clients[name] = c
			if !s.opts.Common.PlanOnly {
				w, err := cluster.NewWatches(ctx, c, cluster.WatchOptions{AllNamespaces: true})
				if err != nil {
					return err
				}
				s.watches, watches[name] = append(s.watches, w), w
			}
		}
		m.client, m.watches = clients[m.ContextName()], watches[m.ContextName()]
		m.Namespace = cmp.Or(m.Namespace, m.client.Namespace())
	}
	return nil
}

// locate adds the release and its line to an error, unless the error is about the current cluster.
func (m *member) locate(err error) error {
	if m.Context == "" && connect.IsClusterError(err) {
		return err
	}
	return helmfile.Locate(m.At, m.id, err)
}

// planAll plans all releases concurrently, each after those that it needs.
func (s *Stack) planAll(ctx context.Context) error {
	s.Mask().AddNames(s.info.Release, s.info.Chart)
	for _, m := range s.members {
		s.Mask().AddNames(m.id, m.Name, m.Namespace, m.ContextName())
	}
	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for _, m := range s.members {
		wg.Go(func() {
			defer close(m.prepared)
			before := s.awaitPlans(m)
			if m.err != nil && s.opts.Journal.Entry(m.id).Before().Start == nil {
				return
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			err := m.err
			m.planned = s.plan(ctx, m, before, nil)
			m.err = cmp.Or(err, m.err)
		})
	}
	wg.Wait()
	var errs []error
	for _, m := range s.members {
		if m.err != nil && !errors.Is(m.err, errDependency) {
			err := m.locate(m.err)
			if !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err)
			}
		}
	}
	s.warnUnmatched()
	s.warnLookups()
	shared, more := s.checkSharedObjects()
	s.warnings = append(s.warnings, shared...)
	return errors.Join(slices.Concat(errs, more, s.checkHandovers())...)
}

// warnUnmatched warns about what the operator says of objects that no release has (R22b).
func (s *Stack) warnUnmatched() {
	matched, missed := map[string]bool{}, map[string]plan.Warning{}
	for _, m := range s.members {
		if m.op == nil || m.remove {
			continue
		}
		var said []string
		for _, o := range readiness.Join(m.Readiness, s.opts.Common.Readiness) {
			said = append(said, o.For)
		}
		for _, arg := range s.opts.Common.ReplaceObjects {
			said = append(said, "--replace "+strings.TrimSpace(arg))
		}
		for _, key := range said {
			if w, misses := m.op.Unmatched()[key]; misses {
				missed[key] = w
			} else {
				matched[key] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(missed)) {
		if !matched[key] {
			s.warnings = append(s.warnings, missed[key])
		}
	}
}

// errDependency is the error of a release that needs one that could not be planned.
var errDependency = errors.New("a release that it needs could not be planned")

// plan prepares the operation of a release. before are the objects of the releases that it needs, which exist when it
// starts. replaced is an earlier plan of it, nil for none: the new one has its ledger.
//
// Rule S7: each release has its own operation, an install, upgrade or uninstall. It resumes an
// earlier one that was killed (R50) and holds its own Lease (R51).
func (s *Stack) plan(ctx context.Context, m *member, before provided, replaced *operation.Operation) (p planned) {
	common := s.common(m)
	if replaced != nil {
		common.Continues, common.HoldsLease = replaced.Ledger(), replaced.HoldsLease()
	}
	if common.Provided = before[m.cluster]; common.Provided == nil {
		common.Provided = session.NewProvided()
	}
	if m.remove {
		p.op, p.err = operation.PrepareUninstall(ctx, m.client, operation.Uninstall{Common: common, IgnoreNotFound: true})
		if p.op != nil {
			p.err = p.op.Unplanned()
		}
		return p
	}
	chart, err := s.opts.Load(ctx, m.Release)
	chart.NotLoaded, chart.Labels = err, s.labels(chart.Labels)
	p.op, p.err = operation.PrepareUpgrade(ctx, m.client, operation.Deploy{
		Common: common, ChartOptions: chart, Install: true, CreateNamespace: m.CreateNamespace,
		ReuseValues: m.ReuseValues, ResetValues: !m.ReuseValues, CleanupOnFail: m.CleanupOnFail, HistoryMax: m.HistoryMax,
	})
	if p.err == nil {
		p.err = p.op.Unplanned()
	}
	if p.err != nil {
		return p
	}
	own, err := p.op.Provides()
	if err != nil {
		p.err = err
		return p
	}
	p.own, p.provides = own, provided{}
	p.provides.addAll(before)
	p.provides.add(m.cluster, own)
	p.unchanged, p.err = p.op.Unchanged(ctx)
	return p
}

// common returns the options of the operation on a release.
func (s *Stack) common(m *member) operation.Common {
	c := s.opts.Common
	c.Release, c.Namespace, c.Stack = m.Name, m.Namespace, s.info.Release
	if m.Timeout > 0 {
		c.Timeout = m.Timeout
		c.ReadinessTimeout = min(c.ReadinessTimeout, c.Timeout) // 0: the release's own timeout, by R25
		c.Settle = min(c.Settle, c.Timeout)
	}
	c.Step, c.BreakOn, c.ApproveBefore, c.Approve = false, m.breakOn, m.approveBefore, m.approved
	if c.WaitForJobs == plan.AwaitedJobs && m.WaitForJobs {
		c.WaitForJobs = plan.AllJobs
	}
	c.NoHooks = c.NoHooks || m.NoHooks
	c.RollbackOnFailure = c.RollbackOnFailure || m.RollbackOnFailure
	c.Readiness = readiness.Join(m.Readiness, c.Readiness)
	c.WaitFor, c.Test = m.WaitFor, c.Test || m.Test
	c.Watches = m.watches
	c.OnStep = nil
	if s.opts.SavedPlan != nil {
		c.SavedPlan = s.opts.SavedPlan.Release(m.id)
	}
	c.Journal = s.opts.Journal.Entry(m.id)
	return c
}
