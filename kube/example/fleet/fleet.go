package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lockstep/engine/event"
	"lockstep/kube"
	"lockstep/kube/charts"
)

// fleet is many releases of one chart.
type fleet struct {
	options
	client  *kube.Client
	watches *kube.Watches // nil for some of each release's own
	chart   *charts.Chart
	sent    *requests
}

// Figures are what a step took. Memory and goroutines are the most that was seen.
type Figures struct {
	Step     string   `json:"step"`
	Releases int      `json:"releases"`
	Ready    int      `json:"ready"` // or gone
	Seconds  float64  `json:"seconds"`
	Slowest  float64  `json:"slowest"` // of the releases, in seconds
	Events   int      `json:"events"`  // that were told of the releases
	Heap     uint64   `json:"heap"`    // bytes in use
	Routines int      `json:"routines"`
	Failed   []string `json:"failed,omitempty"`
	Counts
}

// progress is how far a step is.
type progress struct {
	mu      sync.Mutex
	figures Figures
	working int
}

// step does one thing to all releases.
func (f *fleet) step(ctx context.Context, name string) error {
	p := &progress{figures: Figures{Step: name, Releases: f.releases}}
	begun, before := time.Now(), f.sent.counts()
	watching, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { f.tell(watching, p, begun, before) })
	next := make(chan int)
	var workers sync.WaitGroup
	for range f.atOnce() {
		workers.Go(func() {
			for n := range next {
				f.one(ctx, p, name, n)
			}
		})
	}
	for n := range f.releases {
		next <- n
	}
	close(next)
	workers.Wait()
	stop()
	told.Wait()
	found := p.figures
	found.Seconds, found.Counts = time.Since(begun).Seconds(), f.sent.counts().since(before)
	return f.report(found)
}

func (f *fleet) atOnce() int {
	if f.workers <= 0 {
		return f.releases
	}
	return min(f.workers, f.releases)
}

// one does a step to one release.
func (f *fleet) one(ctx context.Context, p *progress, step string, n int) {
	begun := time.Now()
	p.mu.Lock()
	p.working++
	p.mu.Unlock()
	events, err := f.operate(ctx, step, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	p.figures.Events += events
	p.figures.Slowest = max(p.figures.Slowest, time.Since(begun).Seconds())
	if err != nil {
		p.figures.Failed = append(p.figures.Failed, fmt.Sprintf("%s: %v", f.release(n), err))
		return
	}
	p.figures.Ready++
}

func (f *fleet) release(n int) string   { return "app-" + strconv.Itoa(n) }
func (f *fleet) namespace(n int) string { return f.prefix + "-" + strconv.Itoa(n%f.namespaces) }

// operate prepares an operation and carries it out, as a controller would in its
// reconcile function, and reads its events.
func (f *fleet) operate(ctx context.Context, step string, n int) (events int, err error) {
	op, err := f.prepare(ctx, step, n)
	if err != nil {
		return 0, err
	}
	// What is left undone when the program is told to end: the release is marked
	// failed, and the next run goes on from there.
	defer context.AfterFunc(ctx, func() { op.Command(event.Command{Name: event.Abort, Reason: "the fleet is told to stop"}) })()
	var read sync.WaitGroup
	read.Go(func() {
		for reader := op.Feed().Reader(); ; {
			batch, ok := reader.Next(context.Background())
			if !ok {
				return
			}
			events += len(batch)
		}
	})
	err = op.Run()
	read.Wait()
	return events, err
}

func (f *fleet) prepare(ctx context.Context, step string, n int) (*kube.Operation, error) {
	common := kube.Common{Release: f.release(n), Namespace: f.namespace(n), Timeout: f.timeout, ReadinessTimeout: f.timeout, Watches: f.watches}
	rendering := kube.Rendering{Chart: f.chart, Values: f.values}
	switch step {
	case "install":
		return f.client.PrepareInstall(ctx, kube.Install{Common: common, Rendering: rendering})
	case "upgrade":
		rendering.Values = map[string]any{"greeting": "hello again"}
		for k, v := range f.values {
			rendering.Values[k] = v
		}
		return f.client.PrepareUpgrade(ctx, kube.Upgrade{Common: common, Rendering: rendering})
	case "uninstall":
		return f.client.PrepareUninstall(ctx, kube.Uninstall{Common: common})
	}
	return nil, fmt.Errorf("step %q is none of install, upgrade, uninstall", step)
}

// makeNamespaces makes those that are missing.
func (f *fleet) makeNamespaces(ctx context.Context) error {
	for n := range f.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace(n)}}
		if _, err := f.client.Clientset.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make namespace %s: %w", ns.Name, err)
		}
	}
	return nil
}

// tell says every second how far a step is, and looks how much memory it has.
func (f *fleet) tell(ctx context.Context, p *progress, begun time.Time, before Counts) {
	for tick := 0; ; tick++ {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		p.mu.Lock()
		p.figures.Heap, p.figures.Routines = max(p.figures.Heap, memory.HeapInuse), max(p.figures.Routines, runtime.NumGoroutine())
		now, working := p.figures, p.working
		p.mu.Unlock()
		if sent := f.sent.counts().since(before); tick%4 == 3 && !f.json {
			fmt.Fprintf(f.out, "%6.1fs  %s: %d of %d done, %d at work, %d failed; %d requests, %d of them watches\n",
				time.Since(begun).Seconds(), now.Step, now.Ready, now.Releases, working, len(now.Failed), sent.Requests, sent.Watches)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// report says what a step took. The error says that not all releases are as they
// should be.
func (f *fleet) report(found Figures) error {
	if f.json {
		if err := json.NewEncoder(f.out).Encode(found); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(f.out, "%s: %d of %d releases done in %.1f s, the slowest in %.1f s; %d requests, %d of them watches, %d writes; %.1f MB of heap, %d goroutines\n",
			found.Step, found.Ready, found.Releases, found.Seconds, found.Slowest, found.Requests, found.Watches, found.Writes, float64(found.Heap)/1e6, found.Routines)
	}
	var errs []error
	for _, text := range found.Failed {
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
