package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

// fleet deploys many releases of one chart.
type fleet struct {
	options
	client  *kube.Client
	watches *kube.Watches // nil to use separate watches for each release
	chart   *charts.Chart
	sent    *requests
}

// Figures are the measurements of a step.
type Figures struct {
	Step     string   `json:"step"`
	Releases int      `json:"releases"`
	Ready    int      `json:"ready"` // or uninstalled
	Seconds  float64  `json:"seconds"`
	Slowest  float64  `json:"slowest"`  // seconds of the slowest release
	Events   int      `json:"events"`   // of all releases
	Heap     uint64   `json:"heap"`     // maximum of bytes in use
	Routines int      `json:"routines"` // maximum of goroutines
	Failed   []string `json:"failed,omitempty"`
	Counts
}

// progress is the state of a running step.
type progress struct {
	mu      sync.Mutex
	figures Figures
	working int
}

// step runs one step for all releases.
func (f *fleet) step(ctx context.Context, name string) error {
	p := &progress{figures: Figures{Step: name, Releases: f.releases}}
	start, before := time.Now(), f.sent.counts()
	running, stop := context.WithCancel(ctx)
	var printer sync.WaitGroup
	printer.Go(func() { f.monitor(running, p, start, before) })
	next := make(chan int)
	var operations sync.WaitGroup
	workers := f.workers
	if workers <= 0 {
		workers = f.releases
	}
	for range min(workers, f.releases) {
		operations.Go(func() {
			for n := range next {
				f.runOne(ctx, p, name, n)
			}
		})
	}
	for n := range f.releases {
		next <- n
	}
	close(next)
	operations.Wait()
	stop()
	printer.Wait()
	figures := p.figures
	figures.Seconds, figures.Counts = time.Since(start).Seconds(), f.sent.counts().since(before)
	return f.report(figures)
}

// runOne runs a step for one release and records its result in p.
func (f *fleet) runOne(ctx context.Context, p *progress, step string, n int) {
	start := time.Now()
	p.mu.Lock()
	p.working++
	p.mu.Unlock()
	events, err := f.operate(ctx, step, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	p.figures.Events += events
	p.figures.Slowest = max(p.figures.Slowest, time.Since(start).Seconds())
	if err != nil {
		p.figures.Failed = append(p.figures.Failed, fmt.Sprintf("%s: %v", f.release(n), err))
		return
	}
	p.figures.Ready++
}

func (f *fleet) release(n int) string   { return "app-" + strconv.Itoa(n) }
func (f *fleet) namespace(n int) string { return f.prefix + "-" + strconv.Itoa(n%f.namespaces) }

// operate prepares and runs an operation, as a controller would in its reconcile function,
// and counts its events.
func (f *fleet) operate(ctx context.Context, step string, n int) (events int, err error) {
	op, err := f.prepare(ctx, step, n)
	if err != nil {
		return 0, err
	}
	// Abort when the program is stopped: the release is marked failed, and the next run continues it.
	defer context.AfterFunc(ctx, func() { op.Command(event.Command{Name: event.Abort, Reason: "fleet was stopped"}) })()
	var read sync.WaitGroup
	read.Go(func() {
		for range op.Feed().Reader().All(context.Background()) {
			events++
		}
	})
	err = op.Run()
	read.Wait()
	return events, err
}

func (f *fleet) prepare(ctx context.Context, step string, n int) (*kube.Operation, error) {
	common := kube.Common{Release: f.release(n), Namespace: f.namespace(n), Timeout: f.timeout, ReadinessTimeout: f.timeout, Watches: f.watches}
	rendering := kube.ChartOptions{Chart: f.chart, Values: f.values}
	switch step {
	case "install":
		return f.client.PrepareInstall(ctx, kube.Deploy{Common: common, ChartOptions: rendering})
	case "upgrade":
		rendering.Values = map[string]any{"greeting": "hello again"}
		maps.Copy(rendering.Values, f.values)
		return f.client.PrepareUpgrade(ctx, kube.Deploy{Common: common, ChartOptions: rendering})
	case "uninstall":
		return f.client.PrepareUninstall(ctx, kube.Uninstall{Common: common})
	}
	return nil, fmt.Errorf("unknown step %q: use install, upgrade or uninstall", step)
}

// createNamespaces creates missing namespaces.
func (f *fleet) createNamespaces(ctx context.Context) error {
	for n := range f.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace(n)}}
		if _, err := f.client.Clientset.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", ns.Name, err)
		}
	}
	return nil
}

// monitor measures memory and prints the progress of a step every second, until ctx ends.
func (f *fleet) monitor(ctx context.Context, p *progress, start time.Time, before Counts) {
	for tick := 0; ; tick++ {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		p.mu.Lock()
		p.figures.Heap, p.figures.Routines = max(p.figures.Heap, memory.HeapInuse), max(p.figures.Routines, runtime.NumGoroutine())
		now, working := p.figures, p.working
		p.mu.Unlock()
		if sent := f.sent.counts().since(before); tick%4 == 3 && !f.json {
			fmt.Fprintf(f.out, "%6.1fs  %s: %d of %d done, %d running, %d failed; %d requests (%d watches)\n",
				time.Since(start).Seconds(), now.Step, now.Ready, now.Releases, working, len(now.Failed), sent.Requests, sent.Watches)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// report prints the figures of a step and returns the errors of the failed releases.
func (f *fleet) report(figures Figures) error {
	if f.json {
		if err := json.NewEncoder(f.out).Encode(figures); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(f.out, "%s: %d of %d releases done in %.1f s, slowest %.1f s; %d requests (%d watches, %d writes); %.1f MB heap, %d goroutines\n",
			figures.Step, figures.Ready, figures.Releases, figures.Seconds, figures.Slowest, figures.Requests, figures.Watches, figures.Writes, float64(figures.Heap)/1e6, figures.Routines)
	}
	var errs []error
	for _, text := range figures.Failed {
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}
