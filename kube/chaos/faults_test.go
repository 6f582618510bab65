package chaos

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/kube/throwaway/faultproxy"
)

var dropResponse = faultproxy.DropResponse

// fault is a transient fault of requests.
type fault struct {
	kind  string
	phase string
	nth   int // the first affected request of the phase
	times int // the number of affected requests
	lasts time.Duration

	hit bool
}

func (f *fault) String() string {
	s := fmt.Sprintf("%s at %s[%d]", f.kind, f.phase, f.nth)
	if f.times > 1 {
		s += fmt.Sprintf(" ×%d", f.times)
	}
	if f.lasts > 0 {
		s += " for " + f.lasts.String()
	}
	return s
}

// requestFaults are the faults of single requests.
var requestFaults = map[string]handler{
	"429": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Retry-After", "1")
		faultproxy.Refuse(w, 429, "TooManyRequests", "too many requests, please try again later")
	},
	"500": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		faultproxy.Refuse(w, 500, "InternalError", "Internal error occurred: made to fail")
	},
	"leader changed": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		faultproxy.Refuse(w, 500, "InternalError", "etcdserver: leader changed")
	},
	"503": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		faultproxy.Refuse(w, 503, "ServiceUnavailable", "apiserver is shutting down")
	},
	"502": gateway(502), "504": gateway(504),
	"reset before": func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
		faultproxy.Reset(r)
		panic(http.ErrAbortHandler)
	},
	"reset after": func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		dropResponse(r, next)
		faultproxy.Reset(r)
		panic(http.ErrAbortHandler)
	},
	"stream reset before": func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
	"stream reset after": func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		dropResponse(r, next)
		panic(http.ErrAbortHandler)
	},
	"done, then 504": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		dropResponse(r, next)
		gateway(504)(w, r, next)
	},
	"delay": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(1500 * time.Millisecond)
		next.ServeHTTP(w, r)
	},
}

// watchFaults are the faults of single watches.
var watchFaults = map[string]handler{
	"410": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		faultproxy.Refuse(w, 410, "Expired", "too old resource version")
	},
	"410 in the watch": func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}`)
	},
	"watch ends": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		q := r.URL.Query()
		q.Set("timeoutSeconds", "1")
		r.URL.RawQuery = q.Encode()
		next.ServeHTTP(w, r)
	},
	"watch reset": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.AfterFunc(100*time.Millisecond, func() { faultproxy.Reset(r) })
		next.ServeHTTP(w, r)
	},
}

// outages affect all requests for a while.
var outages = []string{"refuses connections", "resets connections", "503 to all", "silence"}

func gateway(code int) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		fmt.Fprintf(w, "<html><body><h1>%d %s</h1></body></html>", code, http.StatusText(code))
	}
}

// faultsOf returns one or two random faults.
func faultsOf(rng *rand.Rand, want *baseline) []*fault {
	faults := []*fault{oneFault(rng, want)}
	if rng.IntN(3) == 0 {
		faults = append(faults, oneFault(rng, want))
	}
	return faults
}

func oneFault(rng *rand.Rand, want *baseline) *fault {
	var phases []string
	for p := range want.phases {
		phases = append(phases, p)
	}
	slices.Sort(phases)
	f := &fault{phase: phases[rng.IntN(len(phases))], times: 1}
	f.nth = rng.IntN(want.phases[f.phase])
	switch {
	case rng.IntN(7) == 0:
		f.kind = outages[rng.IntN(len(outages))]
		f.lasts = time.Duration(rng.IntN(40)+5) * 100 * time.Millisecond
		return f
	case f.phase == phaseWatches && rng.IntN(2) == 0:
		f.kind = pickKey(rng, watchFaults)
		return f
	case rng.IntN(12) == 0:
		f.kind = "cut watches"
		return f
	}
	f.kind = pickKey(rng, requestFaults)
	if f.kind != "delay" && rng.IntN(3) == 0 {
		f.times = 2 + rng.IntN(2)
	}
	return f
}

func pickKey[V any](rng *rand.Rand, m map[string]V) string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys[rng.IntN(len(keys))]
}

// faultInjector applies faults to the requests of one command.
type faultInjector struct {
	harness *harness
	faults  []*fault

	mu        sync.Mutex
	outage    string    // the kind of outage
	outageEnd time.Time // of the last outage
}

func (i *faultInjector) intercept(q request) handler {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.faults {
		if q.phase != f.phase || q.nth < f.nth || q.nth >= f.nth+f.times {
			continue
		}
		f.hit = true
		switch {
		case f.lasts > 0:
			i.startOutage(f)
		case f.kind == "cut watches":
			return func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				i.harness.tracker.Load().cutWatches()
				next.ServeHTTP(rw, r)
			}
		default:
			return f.handler(q)
		}
	}
	if time.Now().Before(i.outageEnd) {
		return i.duringOutage(i.outage, i.outageEnd)
	}
	return nil
}

// handler returns how to handle a request that the fault affects, or nil if the fault does not apply to it. Faults after
// the response reset a watch instead, because its response does not end.
func (f *fault) handler(q request) handler {
	if d, ok := watchFaults[f.kind]; ok {
		if !q.watch {
			return nil
		}
		return d
	}
	if q.watch && strings.Contains(f.kind, "after") {
		return watchFaults["watch reset"]
	}
	if q.watch && f.kind == "done, then 504" {
		return gateway(504)
	}
	return requestFaults[f.kind]
}

// anyHit reports whether any fault has occurred.
func (i *faultInjector) anyHit() bool {
	return slices.ContainsFunc(i.faults, func(f *fault) bool { return f.hit })
}

// startOutage starts an outage.
func (i *faultInjector) startOutage(f *fault) {
	if time.Now().Before(i.outageEnd) {
		return
	}
	i.outage, i.outageEnd = f.kind, time.Now().Add(f.lasts)
	switch f.kind {
	case "refuses connections":
		proxy := i.harness.proxy
		go proxy.Down() // in the background: it closes this request's connection too
		time.AfterFunc(f.lasts, func() { i.harness.check(proxy.Up()) })
	case "resets connections", "silence":
		if f.kind == "resets connections" {
			go i.harness.proxy.Cut()
		}
		time.AfterFunc(f.lasts, i.harness.proxy.Cut)
	}
}

func (i *faultInjector) duringOutage(kind string, outageEnd time.Time) handler {
	switch kind {
	case "503 to all":
		return requestFaults["503"]
	case "silence":
		return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Until(outageEnd)):
			}
			panic(http.ErrAbortHandler)
		}
	}
	return requestFaults["reset before"]
}

// faults runs operations with transient faults. The result must be the same as without faults (R53).
func faults(t *testing.T) []trialGroup {
	if _, err := baselineOf(t, operations[len(operations)-1], false); err != nil { // measures all operations
		t.Fatal(err)
	}
	var all []trialGroup
	for chain := 1; chain <= 168; chain++ { // sample picks one with a CRD and HTTP/2
		var seeds []int
		for i := range operations {
			seeds = append(seeds, chain*len(operations)+i)
		}
		all = append(all, trialGroup{seeds, func(t *testing.T, report func(int, string, error)) { faultChain(t, seeds, report) }})
	}
	return all
}

// faultChain runs each operation with faults. A trial continues in the namespace of the previous one or, if that
// failed, in a new one.
func faultChain(t *testing.T, seeds []int, report func(int, string, error)) {
	chain := seeds[0] / len(operations)
	withCRD, h2 := chain%5 == 0, chain%3 != 0
	h := newHarness(t, h2, withCRD)
	defer func() { h.close() }()
	good := true
	for i, seed := range seeds {
		o := operations[i]
		want, err := baselineOf(t, o, withCRD)
		if err != nil {
			report(seed, o.name, err)
			continue
		}
		if only >= 0 && seed != only {
			good = false
			continue
		}
		if !good {
			h.close()
			h = newHarness(t, h2, withCRD)
			if err := h.runPreceding(o); err != nil {
				report(seed, o.name, err)
				continue
			}
		}
		if o.name == "install" {
			h.dropCRD()
		}
		what, err := h.runWithFaults(o, want, rand.New(rand.NewPCG(uint64(seed), 9)))
		report(seed, what, err)
		good = err == nil
	}
}

// runWithFaults runs an operation with faults and checks the result.
func (h *harness) runWithFaults(o operation, want *baseline, rng *rand.Rand) (what string, err error) {
	injector := &faultInjector{harness: h, faults: faultsOf(rng, want)}
	p, tr := h.start(o, injector.intercept)
	hangs := p.wait(3 * time.Minute)
	what = o.name + ":"
	injector.mu.Lock()
	for _, f := range injector.faults {
		what += fmt.Sprintf(" %s,", f)
		if !f.hit {
			what += " (never reached),"
		}
	}
	outageEnd := injector.outageEnd
	injector.mu.Unlock()
	if d := time.Until(outageEnd); d > 0 { // the next operation must not start during the outage
		time.Sleep(d + 100*time.Millisecond)
	}
	if hangs != nil {
		return what, fmt.Errorf("  %w\n%s", hangs, p.outputTail())
	}
	var wrong []string
	if p.exitCode != want.exitCode {
		wrong = append(wrong, fmt.Sprintf("exit code %d, want %d", p.exitCode, want.exitCode))
	}
	wrong = append(wrong, h.waitUntil(want.target, true)...)
	requests, _ := tr.sent()
	wrong = append(wrong, h.excessRequests(requests, want, p.duration, outageEnd)...)
	if len(wrong) > 0 {
		return what, errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + p.outputTail())
	}
	requestTotals.add(len(requests), want.total, injector.anyHit())
	return what, nil
}

// excessRequests reports too many requests: more than 1.5 times as many as without faults plus 10, and 3 for each second that the run
// took longer, because it looks at the cluster while it waits; or bursts of the same request when the API server is back.
func (h *harness) excessRequests(requests []request, want *baseline, took time.Duration, outageEnd time.Time) (wrong []string) {
	longer := max(took-want.took, 0)
	if n := len(requests); n > want.total*3/2+10+3*int(longer.Seconds()) {
		more := map[string]int{}
		for _, q := range requests {
			more[h.withoutNamespace(q.key)]++
		}
		for key := range more {
			more[key] -= want.keys[key]
		}
		most := slices.SortedFunc(maps.Keys(more), func(a, b string) int { return more[b] - more[a] })[:3]
		wrong = append(wrong, fmt.Sprintf("%d requests, without faults %d; it took %s longer; most are more of %s (%d), %s (%d), %s (%d)", n, want.total, longer.Round(time.Second),
			most[0], more[most[0]], most[1], more[most[1]], most[2], more[most[2]]))
	}
	if outageEnd.IsZero() {
		return wrong
	}
	burst := map[string]int{}
	for _, q := range requests {
		if d := q.at.Sub(outageEnd); d > 0 && d < 2*time.Second {
			burst[h.withoutNamespace(q.key)]++
		}
	}
	for key, n := range burst {
		if n > want.keys[key]+6 {
			wrong = append(wrong, fmt.Sprintf("once the API server was back, %d times within 2s: %s", n, key))
		}
	}
	return wrong
}

// requestTotals adds up the requests of all successful trials.
var requestTotals requestRatio

type requestRatio struct {
	mu                          sync.Mutex
	sent, expected, trials, hit int
}

func (r *requestRatio) add(sent, expected int, hit bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent, r.expected, r.trials = r.sent+sent, r.expected+expected, r.trials+1
	if hit {
		r.hit++
	}
	table.note("faults", "requests %.2f × those without faults; a fault hit in %d%% of the trials", float64(r.sent)/float64(r.expected), r.hit*100/r.trials)
}
