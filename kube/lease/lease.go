// Package lease sees to it that one run at a time works on a release: a
// coordination.k8s.io Lease beside it, in its namespace, which a run holds,
// renews, and takes away at its end, and on the machine of the run a lock on a
// file, by which a run that was killed is known to be dead at once.
//
// client-go's leaderelection is not used: it keeps the Lease when it is let go,
// has no room for who holds it and what for, and knows no dead but by waiting.
package lease

import (
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Client is what a Lease is read and written with, in the namespace of its
// release. Its requests should be nobody else's to end, or to hold back.
type Client = v1.LeaseInterface

// Options are how Leases are held and looked at. The zero value will do.
type Options struct {
	// LockDir is the folder of the lock files of this machine's runs, "" for
	// none. It is made where it is missing.
	LockDir string
	// Duration is how long a Lease that is not renewed counts, in whole
	// seconds; 15 s where it is 0. It is renewed every third of that.
	Duration time.Duration
	// Waits, where set, is told what is being waited for.
	Waits func(string)
}

const defaultDuration = 15 * time.Second

func (o Options) duration() time.Duration {
	if o.Duration <= 0 {
		return defaultDuration
	}
	return max(o.Duration.Round(time.Second), time.Second)
}

// Name is the name of a release's Lease. Names of releases have at most 53
// characters, those of Leases 253.
func Name(release string) string { return "lockstep.v1." + release }

// Holder is the run that holds a Lease. What it says of itself is only told,
// never trusted.
type Holder struct {
	User    string `json:"user,omitempty"`
	Host    string `json:"host,omitempty"`
	Process int    `json:"process,omitempty"`
	// Run is the id of the run, different for each.
	Run string `json:"run,omitempty"`
	// Operation is what the run does: install, upgrade …
	Operation string `json:"operation,omitempty"`
	// Since is when it has begun, by its own clock.
	Since time.Time `json:"since,omitzero"`
}

// String says who does what, from where, and since when.
func (h Holder) String() string {
	s := h.User
	if h.Host != "" {
		s += " on " + h.Host
	}
	if h.Process > 0 {
		s += fmt.Sprintf(" (process %d)", h.Process)
	}
	if h.Operation != "" {
		s = h.Operation + " by " + s
	}
	if !h.Since.IsZero() {
		s += " since " + h.Since.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return s
}

// identity is a holder in the one field that kubectl shows.
func (h Holder) identity() string {
	return fmt.Sprintf("%s@%s/%d/%s", h.User, h.Host, h.Process, h.Run)
}

// holderKey is the annotation that keeps the holder.
const holderKey = "lockstep/holder"

// holderOf reads who holds a Lease. One that was made by something else says
// that in a field alone.
func holderOf(l *coordinationv1.Lease) Holder {
	identity := ""
	if l.Spec.HolderIdentity != nil {
		identity = *l.Spec.HolderIdentity
	}
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

// HeldError refuses a run since another one holds the release.
type HeldError struct {
	Release, Namespace string
	Holder             Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("release %s in namespace %s is locked by another run: %s; try again when it has finished, or follow it with lockstep watch",
		e.Release, e.Namespace, e.Holder)
}

// LostError ends a run whose release somebody else has taken (R51a).
type LostError struct {
	Release, Namespace string
	Why                string
}

func (e *LostError) Error() string {
	return fmt.Sprintf("this run lost its lock on release %s in namespace %s: %s", e.Release, e.Namespace, e.Why)
}

// unavailable reports whether Leases cannot be had: the user has no rights to
// them, or the cluster does not know them.
func unavailable(err error) bool {
	switch {
	case namespaceEnds(err):
		return false
	case apierrors.IsNotFound(err): // of the kind, not of the object
		return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
	}
	return apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
}

// namespaceEnds reports whether nothing can be made in a namespace any more.
func namespaceEnds(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
