// Package lease lets one run at a time work on a release (R51). A run holds a coordination.k8s.io Lease in the
// release's namespace: Look reads it, Acquire takes it, Guard protects each write, Release deletes it. A lock file on
// the run's machine shows at once that a run there was killed. Within lockstep, it imports only engine/event, engine/plan
// and engine/text.
//
// client-go's leaderelection does not fit: it does not delete the Lease when it gives it up,
// cannot store details of the holder, and finds out that a holder is dead only by waiting.
package lease

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"lockstep/engine/event"
	"lockstep/engine/text"
)

// Client accesses the Leases in the release's namespace. It must work until the Lease is released, and needs its own
// rate limiter, so that other requests do not delay renewals.
type Client = v1.LeaseInterface

// Options configure how Leases are held and read. The zero value is ready to use.
type Options struct {
	// LockDir is the directory of this machine's lock files, "" for none. It is created if it is missing.
	LockDir string
	// Duration is how long a Lease is valid after a renewal, rounded to whole seconds (at least 1 s); 0 means 15 s.
	// A Lease is renewed three times per Duration.
	Duration time.Duration
	// OnWait, if set, is called with a message when Look has to wait.
	OnWait func(message string)
}

const defaultDuration = 15 * time.Second

func (o Options) duration() time.Duration {
	if o.Duration <= 0 {
		return defaultDuration
	}
	return max(o.Duration.Round(time.Second), time.Second)
}

// Name returns the name of a release's Lease. Release names have at most 53 characters, Lease names 253.
func Name(release string) string { return namePrefix + release }

// Holder describes the run that holds a Lease. Host and RunID identify its lock file.
type Holder struct {
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	Process int    `json:"process,omitempty"`
	RunID   string `json:"run,omitempty"`
	// Job is the Job whose pod executes this run, as namespace/name/UID, or "".
	Job string `json:"job,omitempty"`
	// Stack is the name of the stack that this run belongs to, or "".
	Stack string `json:"stack,omitempty"`
	// Operation is what the run does: install, upgrade …
	Operation string `json:"operation,omitempty"`
	// Since is when the run took the lock, by its own clock (AcquireTime if another program holds the Lease).
	Since time.Time `json:"since,omitzero"`
}

// newHolder returns the Holder for a new run in this process.
func newHolder(p Params) Holder {
	h := Holder{
		User: "unknown", Process: os.Getpid(), RunID: strings.ToLower(rand.Text()[:12]), Job: p.Job, Stack: p.Stack,
		Operation: p.Operation, Since: time.Now().UTC().Truncate(time.Second),
	}
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	} else if id := os.Getuid(); id >= 0 {
		h.User = "user " + strconv.Itoa(id)
	}
	h.Host, _ = os.Hostname()
	return h
}

// Self names the user of this process and the machine: "ann on box".
func Self() string { return newHolder(Params{}).Author().Name }

// String describes the run: "upgrade by ann on box, process 7, since 2026-01-02 03:04:05 UTC".
func (h Holder) String() string {
	s := h.Author().String()
	if h.Operation != "" {
		s = h.Operation + " by " + s
	}
	if !h.Since.IsZero() {
		s += ", since " + h.Since.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return s
}

// Author is who created a revision of a release.
type Author struct {
	Name    string // "ann on box", "Job shop/run-x", "helm"
	Process int    // of a run of lockstep outside of the cluster
}

// String describes the author: "ann on box, process 7".
func (a Author) String() string {
	if a.Process > 0 {
		return fmt.Sprintf("%s, process %d", a.Name, a.Process)
	}
	return a.Name
}

// NewAuthor describes a run of this process. job is its Job, as namespace/name/UID, or "".
func NewAuthor(job string) Author {
	if parts := strings.SplitN(job, "/", 3); job != "" {
		return Author{Name: "Job " + strings.Join(parts[:min(len(parts), 2)], "/")}
	}
	h := newHolder(Params{})
	return h.Author()
}

// Author describes the run without its operation.
func (h Holder) Author() Author {
	name := cmp.Or(h.User, "an unknown holder")
	if h.Host != "" {
		name += " on " + h.Host
	}
	return Author{name, h.Process}
}

// identity returns the HolderIdentity that kubectl shows.
func (h Holder) identity() string {
	return fmt.Sprintf("%s@%s/%d/%s", h.User, h.Host, h.Process, h.RunID)
}

// holderKey is the annotation with the holder as JSON.
const holderKey = "lockstep/holder"

// HolderOf returns the holder of a Lease. If the annotation is missing or does not match HolderIdentity, another program
// holds the Lease; then only HolderIdentity and AcquireTime describe the holder.
func HolderOf(l *coordinationv1.Lease) Holder {
	identity := ptr.Deref(l.Spec.HolderIdentity, "")
	var h Holder
	if json.Unmarshal([]byte(l.Annotations[holderKey]), &h) == nil && h.identity() == identity {
		return h
	}
	h = Holder{User: identity}
	if l.Spec.AcquireTime != nil {
		h.Since = l.Spec.AcquireTime.Time
	}
	return h
}

// Lock is the lock of a release, and who holds it.
type Lock struct {
	Release, Namespace string
	Holder             Holder
}

// LockedError reports that another run has locked the release.
type LockedError struct{ Lock }

func (e *LockedError) Error() string {
	return fmt.Sprintf("release %s in namespace %s is locked by another run: %s; try again when it has finished%s",
		e.Release, e.Namespace, e.Holder, e.howToFollow())
}

// Follow returns the arguments of lockstep that attach to the holder, nil if there is nothing to attach to. here reports whether
// they work on this machine: attach finds the user's own runs on this machine, and Jobs in the cluster.
func (l Lock) Follow() (args []string, here bool) {
	if l.Holder.Host == "" || l.Holder.Operation == "recover" { // another program, or an unknown machine
		return nil, false
	}
	self := newHolder(Params{})
	here = l.Holder.Job != "" || l.Holder.Host == self.Host && l.Holder.User == self.User
	args = []string{"attach", cmp.Or(l.Holder.Stack, l.Release)}
	if l.Holder.Stack != "" && l.Holder.Job == "" { // attach finds a stack on this machine by its name alone
		return args, here
	}
	namespace := l.Namespace
	if jobNamespace, _, ok := strings.Cut(l.Holder.Job, "/"); ok {
		namespace = jobNamespace
	}
	return append(args, "-n", namespace), here
}

// howToFollow says how to attach to the holder, and as whom.
func (e *LockedError) howToFollow() string {
	args, here := e.Follow()
	if args == nil {
		return ""
	}
	where := ""
	if !here {
		where = fmt.Sprintf(" as %s on %s", e.Holder.User, e.Holder.Host)
	}
	line := ""
	for _, a := range args {
		line += " " + text.ShellWord(a)
	}
	return fmt.Sprintf(", or follow it%s with: lockstep%s", where, line)
}

// LostError reports that this run lost its lock, or that somebody else changed the release, so that it must not write any
// more (R51a).
type LostError struct {
	Release, Namespace string
	// Why says how the lock was lost, or how a release record changed.
	Why           string
	RecordChanged bool
	// Newer is the newest revision of the release, if another writer created it; nil if that is unknown.
	Newer *event.NewerRevision
}

func (e *LostError) Error() string {
	switch {
	case e.RecordChanged && e.Newer != nil && e.Newer.Status == event.NoRelease: // it has no history
		return fmt.Sprintf("another run or Helm changed release %s in namespace %s: %s; when no other run is active, run the command again", e.Release, e.Namespace, e.Why)
	case e.RecordChanged:
		return fmt.Sprintf("another run or Helm changed release %s in namespace %s: %s; look at it with: "+text.Program+" history %[1]s -n %[2]s; when no other run is active, run the command again",
			e.Release, e.Namespace, e.Why)
	}
	return fmt.Sprintf("this run lost its lock on release %s in namespace %s: %s; when no other run is active, run the command again",
		e.Release, e.Namespace, e.Why)
}

// isUnavailable reports whether Leases cannot be used: the user has no permission for them, a policy, a webhook or a quota refuses them,
// or the cluster does not serve them. Trying again does not help (R53).
func isUnavailable(err error) bool {
	answer := apierrors.APIStatus(nil)
	if !errors.As(err, &answer) || namespaceTerminating(err) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusNotFound: // of the resource type, not of the object
		return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= http.StatusBadRequest && code < http.StatusInternalServerError
	}
}

func namespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
