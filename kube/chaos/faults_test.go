package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/kube/throwaway/faultproxy"
)

var swallow = faultproxy.DropResponse

// fault is a transient fault of requests.
type fault struct {
	kind  string
	phase string
	nth   int // the request of the phase that it begins with
	times int // how many requests of the phase it happens to
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

// simple are the faults of single requests: what is answered instead, or done to
// the connection.
var simple = map[string]deed{
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
		swallow(r, next)
		faultproxy.Reset(r)
		panic(http.ErrAbortHandler)
	},
	"stream reset before": func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) },
	"stream reset after": func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		swallow(r, next)
		panic(http.ErrAbortHandler)
	},
	"done, then 504": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		swallow(r, next)
		gateway(504)(w, r, next)
	},
	"delay": func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		time.Sleep(1500 * time.Millisecond)
		next.ServeHTTP(w, r)
	},
}

// ofWatches are those of watches alone.
var ofWatches = map[string]deed{
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

// outages happen to all requests, for a while.
var outages = []string{"refuses connections", "resets connections", "503 to all", "silence"}

func gateway(code int) deed {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		fmt.Fprintf(w, "<html><body><h1>%d %s</h1></body></html>", code, http.StatusText(code))
	}
}

// faultsOf returns the faults of a seed: one, or two at once.
func faultsOf(rng *rand.Rand, std *standard) []*fault {
	faults := []*fault{oneFault(rng, std)}
	if rng.IntN(3) == 0 {
		faults = append(faults, oneFault(rng, std))
	}
	return faults
}

func oneFault(rng *rand.Rand, std *standard) *fault {
	var phases []string
	for p := range std.phases {
		phases = append(phases, p)
	}
	slices.Sort(phases)
	f := &fault{phase: phases[rng.IntN(len(phases))], times: 1}
	f.nth = rng.IntN(std.phases[f.phase])
	switch {
	case rng.IntN(7) == 0:
		f.kind = outages[rng.IntN(len(outages))]
		f.lasts = time.Duration(rng.IntN(40)+5) * 100 * time.Millisecond
		return f
	case f.phase == phaseWatches && rng.IntN(2) == 0:
		f.kind = pickKey(rng, ofWatches)
		return f
	case rng.IntN(12) == 0:
		f.kind = "cut watches"
		return f
	}
	f.kind = pickKey(rng, simple)
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

// weather applies faults to the requests of one command.
type weather struct {
	bench  *bench
	faults []*fault

	mu   sync.Mutex
	away string    // the kind of outage
	back time.Time // when the last outage ends
}

func (w *weather) on(q request) deed {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		if q.phase != f.phase || q.nth < f.nth || q.nth >= f.nth+f.times {
			continue
		}
		f.hit = true
		switch {
		case f.lasts > 0:
			w.begin(f)
		case f.kind == "cut watches":
			return func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
				w.bench.tracker.Load().cutWatches()
				next.ServeHTTP(rw, r)
			}
		default:
			return f.deed(q)
		}
	}
	if time.Now().Before(w.back) {
		return w.outage(w.away, w.back)
	}
	return nil
}

// deed returns the effect of the fault on a request. For a watch, it may start after the
// response headers.
func (f *fault) deed(q request) deed {
	if d, ok := ofWatches[f.kind]; ok {
		if !q.watch {
			return nil
		}
		return d
	}
	if q.watch && strings.Contains(f.kind, "after") {
		return ofWatches["watch reset"]
	}
	if q.watch && f.kind == "done, then 504" {
		return gateway(504)
	}
	return simple[f.kind]
}

// struck reports whether any fault has occurred.
func (w *weather) struck() bool {
	return slices.ContainsFunc(w.faults, func(f *fault) bool { return f.hit })
}

// begin starts an outage.
func (w *weather) begin(f *fault) {
	if time.Now().Before(w.back) {
		return
	}
	w.away, w.back = f.kind, time.Now().Add(f.lasts)
	switch f.kind {
	case "refuses connections":
		front := w.bench.front
		go front.Down() // this request's connection too
		time.AfterFunc(f.lasts, func() { w.bench.check(front.Up()) })
	case "resets connections", "silence":
		if f.kind == "resets connections" {
			go w.bench.front.Cut()
		}
		time.AfterFunc(f.lasts, w.bench.front.Cut)
	}
}

func (w *weather) outage(kind string, back time.Time) deed {
	switch kind {
	case "503 to all":
		return simple["503"]
	case "silence":
		return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Until(back)):
			}
			panic(http.ErrAbortHandler)
		}
	}
	return simple["reset before"]
}

// faults disturbs operations with transient faults. Each must end as it does undisturbed
// (R53).
func faults(t *testing.T) []trials {
	if _, err := standardOf(t, operations[len(operations)-1], false); err != nil { // and of all before it
		t.Fatal(err)
	}
	var all []trials
	for chain := 1; chain <= 168; chain++ { // sample takes one with a CRD and HTTP/2
		var seeds []int
		for i := range operations {
			seeds = append(seeds, chain*len(operations)+i)
		}
		all = append(all, trials{seeds, func(t *testing.T, tell func(int, string, error)) { faultChain(t, seeds, tell) }})
	}
	return all
}

// faultChain runs the trials of a chain. Each continues in the namespace of the previous one
// or, if that failed, in a new one.
func faultChain(t *testing.T, seeds []int, tell func(int, string, error)) {
	chain := seeds[0] / len(operations)
	withCRD, h2 := chain%5 == 0, chain%3 != 0
	b := newBench(t, h2, withCRD)
	defer func() { b.close() }()
	good := true
	for i, seed := range seeds {
		o := operations[i]
		std, err := standardOf(t, o, withCRD)
		if err != nil {
			tell(seed, o.name, err)
			continue
		}
		if only >= 0 && seed != only {
			good = false
			continue
		}
		if !good {
			b.close()
			b = newBench(t, h2, withCRD)
			if err := b.reach(o); err != nil {
				tell(seed, o.name, err)
				continue
			}
		}
		if o.name == "install" {
			b.dropCRD()
		}
		what, err := b.disturb(o, std, rand.New(rand.NewPCG(uint64(seed), 9)))
		tell(seed, what, err)
		good = err == nil
	}
}

// disturb runs an operation with faults and judges the result.
func (b *bench) disturb(o operation, std *standard, rng *rand.Rand) (what string, err error) {
	weather := &weather{bench: b, faults: faultsOf(rng, std)}
	p, tr := b.start(o, weather.on)
	hangs := p.wait(3 * time.Minute)
	what = o.name + ":"
	weather.mu.Lock()
	for _, f := range weather.faults {
		what += fmt.Sprintf(" %s,", f)
		if !f.hit {
			what += " not come to,"
		}
	}
	back := weather.back
	weather.mu.Unlock()
	if d := time.Until(back); d > 0 { // the next one is to find it as it should be
		time.Sleep(d + 100*time.Millisecond)
	}
	if hangs != nil {
		return what, fmt.Errorf("  %w\n%s", hangs, p.says())
	}
	var wrong []string
	if p.exit != std.exit {
		wrong = append(wrong, fmt.Sprintf("exit code %d, want %d", p.exit, std.exit))
	}
	wrong = append(wrong, b.becomes(std.target, true)...)
	requests, _ := tr.made()
	wrong = append(wrong, b.tooMany(requests, std, back)...)
	if len(wrong) > 0 {
		return what, errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + p.says())
	}
	asked.add(len(requests), std.total, weather.struck())
	return what, nil
}

// tooMany returns what is wrong with the number of requests: more than 1.5 times as many as
// undisturbed, or endless repetition after the API server is back. A short operation may have
// a few more, since a fault costs the same in any.
func (b *bench) tooMany(requests []request, std *standard, back time.Time) (wrong []string) {
	if n := len(requests); n > std.total*3/2+10 {
		wrong = append(wrong, fmt.Sprintf("%d requests, undisturbed %d", n, std.total))
	}
	if back.IsZero() {
		return wrong
	}
	burst := map[string]int{}
	for _, q := range requests {
		if d := q.at.Sub(back); d > 0 && d < 2*time.Second {
			burst[b.anywhere(q.key)]++
		}
	}
	for key, n := range burst {
		if n > std.keys[key]+6 {
			wrong = append(wrong, fmt.Sprintf("once the API server was back, %d times within 2s: %s", n, key))
		}
	}
	return wrong
}

// asked adds up the requests of what was survived.
var asked ratio

type ratio struct {
	mu                         sync.Mutex
	made, want, trials, struck int
}

func (r *ratio) add(made, want int, struck bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made, r.want, r.trials = r.made+made, r.want+want, r.trials+1
	if struck {
		r.struck++
	}
	table.note("faults", "requests %.2f × undisturbed; %d%% of the faults came about", float64(r.made)/float64(r.want), r.struck*100/r.trials)
}
