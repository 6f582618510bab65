package chaos

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A phase is the part of an operation that a request belongs to.
const (
	phaseChecks   = "checks" // until the first write
	phaseLease    = "lease"
	phaseCRDs     = "crds"
	phaseRecord   = "record"   // writes of the release record
	phaseHooks    = "hooks"    // all requests about hooks' objects
	phaseApplies  = "applies"  // writes of the chart's objects
	phaseRemovals = "removals" // deletions of the chart's objects
	phaseWatches  = "watches"
	phaseReads    = "reads"    // the other reads after the first write
	phaseRollback = "rollback" // all requests of a rollback on failure
)

// request is a request that the proxy received.
type request struct {
	kept  int // number of the write of the journal, 0 for other requests
	at    time.Time
	key   string // method and path
	phase string
	nth   int // index within its phase, from 0
	write int // number of the write, from 1; 0 for a read
	// record is the number of the write of a release record, from 1; 0 for other requests.
	record int
	watch  bool
}

// handler handles a request instead of the proxy. next forwards it to the API server.
type handler func(w http.ResponseWriter, r *http.Request, next http.Handler)

// tracker tracks the requests of one command.
type tracker struct {
	// isRollback is set if the operation itself rolls back or uninstalls. Records that say so then do not start a
	// rollback on failure.
	isRollback bool
	// on returns the handler of a request, or nil to forward it. It is called for one request at a time.
	on func(request) handler

	mu       sync.Mutex
	requests []request
	phases   map[string]int
	writes   int
	records  int
	kept     int // writes of the journal
	// rollbackStarted is set once a rollback on failure has started.
	rollbackStarted bool
	watches         map[*http.Request]context.CancelFunc
}

func newTracker(isRollback bool, on func(request) handler) *tracker {
	return &tracker{isRollback: isRollback, on: on, phases: map[string]int{}, watches: map[*http.Request]context.CancelFunc{}}
}

func (t *tracker) intercept(w http.ResponseWriter, r *http.Request, next http.Handler) {
	q, do := t.record(r)
	if q.watch {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		t.mu.Lock()
		t.watches[r] = cancel
		t.mu.Unlock()
		defer func() {
			t.mu.Lock()
			delete(t.watches, r)
			t.mu.Unlock()
		}()
	}
	if do == nil {
		next.ServeHTTP(w, r)
		return
	}
	do(w, r, next)
}

// cutWatches closes all open watches.
func (t *tracker) cutWatches() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, cancel := range t.watches {
		cancel()
	}
}

func (t *tracker) record(r *http.Request) (request, handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := request{at: time.Now(), key: r.Method + " " + r.URL.Path, watch: r.URL.Query().Get("watch") == "true"}
	if q.watch {
		q.key = "watch " + r.URL.Path
	}
	if isWrite(r) {
		t.writes++
		q.write = t.writes
		if isRecord(r) {
			t.records++
			q.record = t.records
		}
		t.rollbackStarted = t.rollbackStarted || !t.isRollback && isRecord(r) && startsRollback(r)
	}
	if isJournal(r) {
		t.kept++
		q.kept = t.kept
	}
	q.phase = t.phase(r, q)
	q.nth = t.phases[q.phase]
	t.phases[q.phase]++
	t.requests = append(t.requests, q)
	if t.on == nil {
		return q, nil
	}
	return q, t.on(q)
}

func (t *tracker) phase(r *http.Request, q request) string {
	path := r.URL.Path
	switch {
	case t.rollbackStarted:
		return phaseRollback
	case strings.Contains(path, "/leases"):
		return phaseLease
	case strings.Contains(path, "/customresourcedefinitions"):
		return phaseCRDs
	case t.writes == 0:
		return phaseChecks
	case isRecord(r) && q.write > 0:
		return phaseRecord
	case strings.Contains(path, "hook-") || strings.Contains(path, "/pods"):
		return phaseHooks
	case q.watch:
		return phaseWatches
	case r.Method == http.MethodDelete:
		return phaseRemovals
	case q.write > 0:
		return phaseApplies
	}
	return phaseReads
}

// isWrite reports whether a request writes to the cluster. What a run in the cluster keeps in its journal does not count here:
// it belongs to the Job.
func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !r.URL.Query().Has("dryRun") && !strings.HasPrefix(r.URL.Path, "/apis/auth") && !strings.HasSuffix(r.URL.Path, "-journal")
}

// isJournal reports whether a request writes the journal of a run in the cluster.
func isJournal(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.HasSuffix(r.URL.Path, "-journal")
}

// isRecord reports whether a request is about a release record. The charts have no Secrets, so
// every new Secret is one.
func isRecord(r *http.Request) bool {
	return strings.Contains(r.URL.Path, "/secrets/sh.helm.release.v1.") || r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/secrets")
}

// startsRollback reports whether a record has the status of a rollback or an uninstall.
func startsRollback(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return err == nil && (bytes.Contains(body, []byte("uninstalling")) || bytes.Contains(body, []byte("pending-rollback")))
}

// written returns how many writes there were.
func (t *tracker) written() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.writes
}

// sent returns the requests so far, and how many there are in each phase.
func (t *tracker) sent() ([]request, map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests), maps.Clone(t.phases)
}
