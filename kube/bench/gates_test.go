package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lockstep/kube/throwaway/auditlog"
)

var (
	crdGVR    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gateGVR   = schema.GroupVersionResource{Group: "bench.example", Version: "v1", Resource: "gates"}
	nsGVR     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secretGVR = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// link is one object of a chain, according to the audit log.
type link struct {
	written time.Time // when lockstep's first write of the object was received
	ready   time.Time // when its last status was written, before the next object was sent
}

// links returns a chain of objects of a resource from the log of their namespace, in the order of their first writes.
// until is the end of the run.
func links(log auditlog.Log, resource string, until time.Time) []link {
	var names []string
	written := map[string]time.Time{}
	for _, e := range log.UserAgent(lockstep).Writes() {
		if _, known := written[e.Object.Name]; e.Object.Resource == resource && !known {
			names = append(names, e.Object.Name)
			written[e.Object.Name] = e.Received
		}
	}
	slices.SortFunc(names, func(a, b string) int { return written[a].Compare(written[b]) })
	statuses := map[string][]time.Time{}
	for _, e := range log {
		if e.Object.Resource == resource && e.Object.Subresource == "status" && e.Succeeded() {
			statuses[e.Object.Name] = append(statuses[e.Object.Name], e.At)
		}
	}
	var chain []link
	for i, name := range names {
		l, next := link{written: written[name]}, until
		if i+1 < len(names) {
			next = written[names[i+1]]
		}
		for _, at := range statuses[name] {
			if at.Before(next) {
				l.ready = at
			}
		}
		if !l.ready.IsZero() {
			chain = append(chain, l)
		}
	}
	return chain
}

// gates measures the time from when an object is ready until the next one is sent. If noisy, other objects of the same
// kind change all the time.
func (s *session) gates(noisy bool) error {
	const n = 1000
	namespace := "gates"
	if noisy {
		namespace = "gates-in-noise"
	}
	chart, err := s.chart("gates", gates(n))
	if err == nil {
		err = s.defineGates()
	}
	if err != nil {
		return err
	}
	if noisy {
		stop, err := s.noise(namespace, 2000)
		if err != nil {
			return err
		}
		defer stop()
	}
	used, err := s.run(lockstep, command(lockstep, "install", chart, namespace, "--timeout", "10m")...)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		p, goal float64
	}{{"latency, median", 0.5, 2}, {"latency, 99th percentile", 0.99, 20}, {"latency, maximum", 1, 60}} {
		s.logFigures = append(s.logFigures, logFigure{s.figure(f.name, "ms", f.goal), func(log auditlog.Log) map[string][]float64 {
			var took []float64
			chain := links(log.Namespace(namespace), "gates", used.end)
			for i := range len(chain) - 1 {
				took = append(took, float64(chain[i+1].written.Sub(chain[i].ready).Microseconds())/1000)
			}
			return map[string][]float64{lockstep: {percentile(took, f.p)}}
		}})
	}
	return nil
}

// defineGates installs the CRD of Gates, unless it exists.
func (s *session) defineGates() error {
	if _, err := s.client.Resource(crdGVR).Get(s.ctx, "gates.bench.example", metav1.GetOptions{}); err == nil {
		return nil
	}
	chart, err := s.chart("gate-kind", gateKind)
	if err != nil {
		return err
	}
	_, err = s.run(lockstep, command(lockstep, "install", chart, "gate-kind")...)
	return err
}

// noise creates n Gates outside the release, and changes 200 of them per second until
// stop is called.
func (s *session) noise(namespace string, n int) (stop func(), err error) {
	if err := s.makeNamespace(namespace); err != nil {
		return nil, err
	}
	all := s.client.Resource(gateGVR).Namespace(namespace)
	for i := range n {
		var o map[string]any
		text := fmt.Sprintf("apiVersion: bench.example/v1\nkind: Gate\nmetadata: {name: noise%d}\nspec: {v: 0}", i)
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return nil, err
		}
		if _, err := all.Create(s.ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("create noise: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			change := fmt.Appendf(nil, `{"spec":{"v":%d}}`, i)
			if _, err := all.Patch(ctx, fmt.Sprintf("noise%d", i%n), types.MergePatchType, change, metav1.PatchOptions{}); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench: noise:", strings.TrimSpace(err.Error()))
			}
		}
	})
	return func() { cancel(); done.Wait() }, nil
}

func (s *session) makeNamespace(name string) error {
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := s.client.Resource(nsGVR).Create(s.ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}
