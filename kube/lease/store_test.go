package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// store keeps Leases in memory, for use with synctest. Tests against a real API server are in kube/e2e/lease.
type store struct {
	Client // for the methods that tests do not call

	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	calls   []string
	// unreachable makes requests fail; dropResponses drops only their responses.
	unreachable, dropResponses bool
	// latency is the duration of a request; while blocked is set, requests wait.
	latency time.Duration
	blocked bool
	// refusal, if set, is the answer to all writes; createErr, if set, is returned by Create.
	refusal   error
	createErr error
}

var (
	errDenied               = apierrors.NewForbidden(leasesResource, "", errors.New(`denied: User "ann" cannot get resource "leases" in API group "coordination.k8s.io"`))
	errNamespaceGone        = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")
	errNamespaceTerminating = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
)

func newStore() *store { return &store{leases: map[string]*coordinationv1.Lease{}} }

var leasesResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// do records a request and makes it fail if the test wants that.
func (s *store) do(ctx context.Context, verb string, request func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, verb)
	if s.unreachable {
		return nil, apierrors.NewServiceUnavailable("unreachable")
	}
	if s.refusal != nil && verb != "get" {
		return nil, s.refusal
	}
	l, err := request()
	if s.dropResponses {
		return nil, apierrors.NewServiceUnavailable("response dropped")
	}
	return l.DeepCopy(), err
}

// wait waits for the duration of a request.
func (s *store) wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		pause, blocked := s.latency, s.blocked
		s.mu.Unlock()
		if blocked {
			pause = 100 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !blocked {
			return nil
		}
	}
}

// put stores a copy as an API server does: as JSON, so its times are whole microseconds of the wall clock.
func (s *store) put(sent *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	data, err := json.Marshal(sent)
	if err != nil {
		return nil, err
	}
	l := &coordinationv1.Lease{}
	if err := json.Unmarshal(data, l); err != nil {
		return nil, err
	}
	s.version++
	l.ResourceVersion = strconv.Itoa(s.version)
	s.leases[l.Name] = l
	return l, nil
}

func (s *store) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return s.do(ctx, "get", func() (*coordinationv1.Lease, error) {
		if l := s.leases[name]; l != nil {
			return l, nil
		}
		return nil, apierrors.NewNotFound(leasesResource, name)
	})
}

func (s *store) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return s.do(ctx, "create", func() (*coordinationv1.Lease, error) {
		switch {
		case s.createErr != nil:
			return nil, s.createErr
		case s.leases[l.Name] != nil:
			return nil, apierrors.NewAlreadyExists(leasesResource, l.Name)
		}
		l = l.DeepCopy()
		l.UID = types.UID(fmt.Sprint("uid-", s.version))
		return s.put(l)
	})
}

func (s *store) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return s.do(ctx, "update", func() (*coordinationv1.Lease, error) {
		switch current := s.leases[l.Name]; {
		case current == nil:
			return nil, apierrors.NewNotFound(leasesResource, l.Name)
		case current.ResourceVersion != l.ResourceVersion:
			return nil, apierrors.NewConflict(leasesResource, l.Name, errors.New("changed"))
		}
		return s.put(l)
	})
}

func (s *store) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := s.do(ctx, "delete", func() (*coordinationv1.Lease, error) {
		switch current := s.leases[name]; {
		case current == nil:
			return nil, apierrors.NewNotFound(leasesResource, name)
		case current.ResourceVersion != *opts.Preconditions.ResourceVersion || current.UID != *opts.Preconditions.UID:
			return nil, apierrors.NewConflict(leasesResource, name, errors.New("changed"))
		}
		delete(s.leases, name)
		return nil, nil
	})
	return err
}

// set changes the store between requests.
func (s *store) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *store) setUnreachable(unreachable bool) { s.set(func() { s.unreachable = unreachable }) }
func (s *store) setDropResponses(drop bool)      { s.set(func() { s.dropResponses = drop }) }
func (s *store) setBlocked(blocked bool)         { s.set(func() { s.blocked = blocked }) }
func (s *store) deny(denied bool) {
	if s.refuse(nil); denied {
		s.refuse(errDenied)
	}
}
func (s *store) refuse(err error) { s.set(func() { s.refusal = err }) }

// allowCreate makes Create work again after deleteNamespace or denyCreate.
func (s *store) allowCreate() { s.set(func() { s.createErr = nil }) }

// denyCreate makes Create fail, but no other write.
func (s *store) denyCreate() { s.set(func() { s.createErr = errDenied }) }

// deleteNamespace deletes the namespace. Create then fails with this error.
func (s *store) deleteNamespace(createErr error) {
	s.set(func() {
		s.createErr = createErr
		clear(s.leases)
	})
}

// clearHolder empties holderIdentity, as client-go's leader election does to release a Lease.
func (s *store) clearHolder(release string) {
	s.set(func() {
		l := s.leases[Name(release)].DeepCopy()
		l.Spec.HolderIdentity = nil
		_, _ = s.put(l)
	})
}

// deleteByHand deletes a Lease as a user would.
func (s *store) deleteByHand(release string) { s.set(func() { delete(s.leases, Name(release)) }) }

func (s *store) lease(release string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[Name(release)].DeepCopy()
}

func (s *store) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}
