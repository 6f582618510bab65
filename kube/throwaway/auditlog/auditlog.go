// Package auditlog reads the audit log of a Kubernetes API server: who sent which request, and when.
package auditlog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// The stages of a request that are logged. A watch has both, other requests only ResponseComplete.
const (
	ResponseStarted  = "ResponseStarted"
	ResponseComplete = "ResponseComplete"
)

// ObjectRef identifies the object of a request. Fields that do not apply are "".
type ObjectRef struct {
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Resource    string `json:"resource"` // plural, "deployments"
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// Event is one stage of one request. Times are the API server's, in microseconds.
type Event struct {
	AuditID    string
	Stage      string
	Verb       string // get, list, watch, create, update, patch, delete, deletecollection, or an HTTP verb in lower case
	RequestURI string
	UserAgent  string    // without the connection, for lockstep
	Connection string    // of lockstep: "3f9c21d4"
	Username   string    // the impersonated user, if any
	Object     ObjectRef // zero for a request that is not about objects, such as /version
	Code       int       // HTTP status
	Received   time.Time // when the request came in
	At         time.Time // when the request reached Stage
	After      *Object   // the object after a write, if the log has objects
}

// Succeeded reports whether the request is complete and was successful.
func (e Event) Succeeded() bool {
	return e.Stage == ResponseComplete && e.Code >= 200 && e.Code < 300
}

// Log is a list of events, in the order in which they were written.
type Log []Event

// Read reads a log. It ignores an incomplete last line, so that the log of a running server can be read.
func Read(path string) (Log, error) { return (&Tail{path: path}).Read() }

// Tail reads a log while it is being written, each line once.
type Tail struct {
	path    string
	mu      sync.Mutex
	at      int64 // offset of the next line
	log     Log
	writers writers // after the first events of log
}

// NewTail returns a Tail that starts with the first line that is not complete yet.
func NewTail(path string) (*Tail, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	t := &Tail{path: path, at: end}
	for last := make([]byte, 1); t.at > 0; t.at-- { // back to the end of the last complete line
		if _, err := f.ReadAt(last, t.at-1); err != nil {
			return nil, err
		}
		if last[0] == '\n' {
			break
		}
	}
	return t, nil
}

// Read returns the events of all complete lines since the start of the Tail.
func (t *Tail) Read() (Log, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read()
}

func (t *Tail) read() (Log, error) {
	f, err := os.Open(t.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(t.at, io.SeekStart); err != nil {
		return nil, err
	}
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return slices.Clip(t.log), nil
		}
		if err != nil {
			return nil, err
		}
		e, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line at byte %d: %w", t.path, t.at, err)
		}
		t.at += int64(len(line))
		t.log = append(t.log, e)
	}
}

func parse(line []byte) (Event, error) {
	var e struct {
		Kind           string
		AuditID        string
		Stage          string
		Verb           string
		RequestURI     string
		UserAgent      string
		User           struct{ Username string }
		Impersonated   struct{ Username string } `json:"impersonatedUser"`
		ObjectRef      ObjectRef
		ResponseStatus struct{ Code int }
		RequestObject  json.RawMessage
		ResponseObject *responseObject

		RequestReceivedTimestamp, StageTimestamp time.Time
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Event{}, err
	}
	if e.Kind != "Event" {
		return Event{}, fmt.Errorf("kind %q is not an audit event", e.Kind)
	}
	out := Event{
		AuditID: e.AuditID, Stage: e.Stage, Verb: e.Verb, RequestURI: e.RequestURI,
		UserAgent: e.UserAgent, Username: cmp.Or(e.Impersonated.Username, e.User.Username), Object: e.ObjectRef, Code: e.ResponseStatus.Code,
		Received: e.RequestReceivedTimestamp, At: e.StageTimestamp,
	}
	if connection, ok := strings.CutPrefix(e.UserAgent, "lockstep/"); ok {
		out.UserAgent, out.Connection = "lockstep", connection
	}
	if e.ResponseObject != nil && e.ResponseObject.Kind != "Status" {
		out.After = e.ResponseObject.object()
		out.Object.Name = cmp.Or(out.Object.Name, e.ResponseObject.Metadata.Name)
	}
	if out.Object.Resource == "secrets" && len(e.RequestObject) > 0 {
		if record := readRecord(e.RequestObject); record != nil {
			out.After = &Object{Record: record}
		}
	}
	return out, nil
}

// Where returns the events for which keep is true.
func (l Log) Where(keep func(Event) bool) Log {
	var kept Log
	for _, e := range l {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

// Namespace returns the events about the objects in a namespace, or with "" about cluster-scoped objects.
func (l Log) Namespace(name string) Log {
	return l.Where(func(e Event) bool { return e.Object.Resource != "" && e.Object.Namespace == name })
}

// UserAgent returns the events of a program by its name in the user agent, such as "Helm" for "Helm/4.3.1".
func (l Log) UserAgent(name string) Log {
	return l.Where(func(e Event) bool { return e.UserAgent == name || strings.HasPrefix(e.UserAgent, name+"/") })
}

// Writes returns the events of successful writes, without dry runs and without the routine writes of every client
// (events, leases, tokens and checks of permissions).
func (l Log) Writes() Log {
	return l.Where(func(e Event) bool {
		switch e.Verb {
		case "create", "update", "patch", "delete", "deletecollection":
			return e.Succeeded() && !routine(e.Object) && !dryRun(e.RequestURI)
		}
		return false
	})
}

func routine(o ObjectRef) bool {
	switch o.APIGroup {
	case "authentication.k8s.io", "authorization.k8s.io":
		return true
	}
	return o.Resource == "events" || o.Resource == "leases" || o.Resource == "serviceaccounts" && o.Subresource == "token"
}

func dryRun(uri string) bool {
	_, query, _ := strings.Cut(uri, "?")
	if !strings.Contains(query, "dryRun") { // most of them, and parsing takes long
		return false
	}
	values, _ := url.ParseQuery(query)
	return values.Has("dryRun")
}
