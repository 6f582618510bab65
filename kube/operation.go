package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	rel1 "helm.sh/helm/v4/pkg/release/v1"
	helmstorage "helm.sh/helm/v4/pkg/storage"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/kube/status"
)

// Common are the options that all operations share. Durations of 0 mean the
// defaults of R25.
type Common struct {
	Release, Namespace string

	// Timeout is for the whole operation (default 5m), ReadinessTimeout for
	// one resource (default 1m, at most Timeout).
	Timeout, ReadinessTimeout time.Duration
	// Wait is a wait strategy as in R27, "ordered" where empty.
	Wait                 string
	WaitAll, WaitForJobs bool

	Step              bool     // start paused
	BreakOn           []string // ids of groups
	HoldOnFailure     bool
	RollbackOnFailure bool
	NoHooks           bool
	PlanOnly          bool // it will not be run, so the rights that it needs are not asked for

	// Heartbeat is how long nothing may happen before what is being waited for
	// is told, and again after as long; 0 for never.
	Heartbeat time.Duration
}

const (
	defaultTimeout   = 5 * time.Minute
	defaultReadiness = time.Minute
)

// complete fills in defaults and checks what can be checked without a cluster.
func (c *Common) complete(namespace string) error {
	if c.Namespace == "" {
		c.Namespace = namespace
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.ReadinessTimeout == 0 {
		c.ReadinessTimeout = min(defaultReadiness, c.Timeout)
	}
	if c.ReadinessTimeout > c.Timeout {
		return fmt.Errorf("the readiness timeout %s is larger than the timeout %s of the operation: lower --readiness-timeout or raise --timeout (R25)", c.ReadinessTimeout, c.Timeout)
	}
	ws, err := waitStrategy(c.Wait)
	if ws == helmkube.HookOnlyStrategy && c.RollbackOnFailure {
		c.Wait = string(helmkube.StatusWatcherStrategy) // as Helm: else no failure would be seen to roll back from
	}
	return err
}

// waitStrategy reads the value of --wait (R27).
func waitStrategy(s string) (helmkube.WaitStrategy, error) {
	switch s {
	case "", "ordered":
		return WaitOrdered, nil
	case "watcher", "true":
		return helmkube.StatusWatcherStrategy, nil
	case "hookOnly", "false", "none":
		return helmkube.HookOnlyStrategy, nil
	case "legacy":
		return helmkube.LegacyStrategy, nil
	}
	return "", fmt.Errorf("--wait=%s is not known: use ordered, watcher, hookOnly or legacy (R27)", s)
}

// Operation is something that is about to be done, or is being done, to a
// release. Everything has been checked; nothing has been written.
type Operation struct {
	client  *Client
	common  Common
	info    event.Operation
	phases  []event.Phase
	warns   []plan.Warning
	record  *record
	root    string // chart path of the root chart
	feed    event.Feed
	preview *rel1.Release
	crds    crdUse
	force   bool   // take fields over from their owners
	before  string // the manifest that is deployed, of an upgrade or a rollback

	// do carries the operation out; undo rolls it back.
	do   func(*pass) (*rel1.Release, error)
	undo func() (event.Operation, func(*pass) error)

	mu     sync.Mutex
	engine *run.Engine
	early  []event.Command
}

// Feed is the record of the operation. It ends when Run returns.
func (op *Operation) Feed() *event.Feed { return &op.feed }

// Phases is what will run, in order.
func (op *Operation) Phases() []event.Phase { return op.phases }

// Warnings are about the chart.
func (op *Operation) Warnings() []plan.Warning { return op.warns }

// Preview is the release as it would be stored.
func (op *Operation) Preview() *rel1.Release { return op.preview }

// Command gives an order to the run; before Run it is kept for its start.
func (op *Operation) Command(c event.Command) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.engine == nil {
		op.early = append(op.early, c)
		return
	}
	op.engine.Command(c)
}

// pass is one run of Helm's action: the operation itself, or its rollback.
type pass struct {
	op  *Operation
	cfg *action.Configuration
	ord *ordered
	rec *recorder
	// begun is set once a phase of the prelude has been begun.
	begun bool
}

// Run carries the operation out, from its first event to its last. What it
// returns is why it failed; the exit code is in the State that the feed draws.
func (op *Operation) Run() error {
	op.client.getter.bound.wrote.Store(false)
	eng := op.start()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watcher := status.NewWatcher(ctx, op.client.dynamic, status.Options{Notice: func(w plan.Warning) { eng.Publish(warningEvent(w)) }})
	defer watcher.Close()
	defer op.client.getter.bound.set(context.Background())
	eng.Announce(op.phases...)
	for _, w := range op.warns {
		eng.Publish(warningEvent(w))
	}
	p, err := op.newPass("", eng, watcher)
	if err == nil {
		err = op.attempt(p)
	}
	if err == nil {
		err = op.settle(p)
	}
	if err == nil {
		err = eng.Finish(run.End{Status: event.Succeeded, Release: p.rec.status})
	}
	if err == nil {
		return nil
	}
	return op.fail(p, eng, watcher, err)
}

func (op *Operation) start() *run.Engine {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.engine = run.New(run.Options{
		Operation: op.info, Feed: &op.feed, Paused: op.common.Step, Breakpoints: op.common.BreakOn,
		HoldOnFailure: op.common.HoldOnFailure, Heartbeat: op.common.Heartbeat, Diagnose: op.client.diagnose,
	})
	for _, c := range op.early {
		op.engine.Command(c)
	}
	return op.engine
}

func warningEvent(w plan.Warning) event.Event {
	return event.Event{Kind: event.KindWarning, Rule: w.Rule, Object: w.Object, Message: w.Message}
}

// attempt carries out the operation proper.
func (op *Operation) attempt(p *pass) error {
	op.client.getter.bound.set(p.ord.engine.Requests())
	rel, err := op.do(p)
	if err != nil {
		return err
	}
	if rel != nil && rel.Info != nil && strings.TrimSpace(rel.Info.Notes) != "" {
		p.ord.engine.Publish(event.Event{Kind: event.KindNotes, Lines: strings.Split(strings.TrimRight(rel.Info.Notes, "\n"), "\n")})
	}
	return nil
}

// newPass puts Helm's action configuration together with our decorators.
func (op *Operation) newPass(prefix string, eng *run.Engine, watcher *status.Watcher) (*pass, error) {
	strategy, err := waitStrategy(op.common.Wait)
	if err != nil {
		return nil, err
	}
	p, err := op.client.newPass(op.common.Namespace, op.root)
	if err != nil {
		return nil, err
	}
	p.op = op
	p.ord.engine, p.ord.watcher = eng, watcher
	p.ord.self, p.ord.told = owner(op.common.Release, op.common.Namespace), map[string]bool{}
	for _, w := range op.warns {
		p.ord.told[w.Message] = true
	}
	p.ord.opts = runOptions{
		prefix: prefix, wait: strategy, waitAll: op.common.WaitAll, waitForJobs: op.common.WaitForJobs,
		readiness: op.common.ReadinessTimeout, timeout: op.common.Timeout, force: op.force,
	}
	p.cfg.HookOutputFunc = p.ord.hookOutput
	p.rec.record = op.record
	p.rec.timings = func() []Timing { return timingsIn(op.feed.Events(), prefix != "") }
	for _, phase := range op.phases {
		if prefix == "" {
			p.ord.markAnnounced(phase)
		}
	}
	return p, nil
}

// newPass returns a pass without an engine: good for planning.
func (c *Client) newPass(namespace, root string) (*pass, error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(c.log.Handler()))
	if err := cfg.Init(c.getter, namespace, storageDriver()); err != nil {
		return nil, fmt.Errorf("prepare Helm: %w", err)
	}
	inner, ok := cfg.KubeClient.(*helmkube.Client)
	if !ok {
		return nil, fmt.Errorf("prepare Helm: unexpected client %T", cfg.KubeClient)
	}
	inner.Namespace = namespace
	factory, ok := inner.Factory.(cmdutil.Factory)
	if !ok {
		return nil, fmt.Errorf("prepare Helm: unexpected factory %T", inner.Factory)
	}
	cfg.RegistryClient = c.registry
	rec := &recorder{Driver: cfg.Releases.Driver}
	cfg.Releases = helmstorage.Init(rec)
	ord := &ordered{Client: inner, client: c, builder: newBuilder(c, factory, namespace, root), alone: true}
	cfg.KubeClient = ord
	return &pass{cfg: cfg, ord: ord, rec: rec}, nil
}

// diagnose says why an object is not ready.
func (c *Client) diagnose(ctx context.Context, o plan.Object) (string, []string) {
	r := c.Diagnoser().Object(ctx, o)
	return r.Summary, r.Lines
}
