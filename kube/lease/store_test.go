package lease

import (
	"context"
	"errors"
	"fmt"
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

// store keeps Leases in memory, for use with synctest. The packages that use leases test a
// real API server.
type store struct {
	Client // for the methods that tests do not call

	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	calls   []string
	// away makes requests fail; lost loses only their responses.
	away, lost bool
	// slow is the duration of a request; while held is set, requests wait.
	slow time.Duration
	held bool
	// denied refuses all writes; noNamespace is the error of creations.
	denied      bool
	noNamespace error
}

var (
	errDenied  = apierrors.NewForbidden(kind, "", errors.New("no rights"))
	errGone    = apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ns")
	errLeaving = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}}
)

func newStore() *store { return &store{leases: map[string]*coordinationv1.Lease{}} }

var kind = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// answer records a request and makes it fail if the test wants that.
func (s *store) answer(ctx context.Context, verb string, do func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, verb)
	if s.away {
		return nil, apierrors.NewServiceUnavailable("away")
	}
	if s.denied && verb != "get" {
		return nil, errDenied
	}
	l, err := do()
	if s.lost {
		return nil, apierrors.NewServiceUnavailable("lost")
	}
	return l.DeepCopy(), err
}

// wait waits for the duration of a request.
func (s *store) wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		pause, held := s.slow, s.held
		s.mu.Unlock()
		if held {
			pause = 100 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !held {
			return nil
		}
	}
}

func (s *store) put(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.version++
	l = l.DeepCopy()
	l.ResourceVersion = strconv.Itoa(s.version)
	s.leases[l.Name] = l
	return l, nil
}

func (s *store) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return s.answer(ctx, "get", func() (*coordinationv1.Lease, error) {
		if l := s.leases[name]; l != nil {
			return l, nil
		}
		return nil, apierrors.NewNotFound(kind, name)
	})
}

func (s *store) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return s.answer(ctx, "create", func() (*coordinationv1.Lease, error) {
		switch {
		case s.noNamespace != nil:
			return nil, s.noNamespace
		case s.leases[l.Name] != nil:
			return nil, apierrors.NewAlreadyExists(kind, l.Name)
		}
		l = l.DeepCopy()
		l.UID = types.UID(fmt.Sprint("uid-", s.version))
		return s.put(l)
	})
}

func (s *store) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return s.answer(ctx, "update", func() (*coordinationv1.Lease, error) {
		switch current := s.leases[l.Name]; {
		case current == nil:
			return nil, apierrors.NewNotFound(kind, l.Name)
		case current.ResourceVersion != l.ResourceVersion:
			return nil, apierrors.NewConflict(kind, l.Name, fmt.Errorf("changed"))
		}
		return s.put(l)
	})
}

func (s *store) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := s.answer(ctx, "delete", func() (*coordinationv1.Lease, error) {
		switch current := s.leases[name]; {
		case current == nil:
			return nil, apierrors.NewNotFound(kind, name)
		case current.ResourceVersion != *opts.Preconditions.ResourceVersion || current.UID != *opts.Preconditions.UID:
			return nil, apierrors.NewConflict(kind, name, fmt.Errorf("changed"))
		}
		delete(s.leases, name)
		return nil, nil
	})
	return err
}

func (s *store) set(away, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away, s.lost = away, lost
}

// hold makes requests wait, or releases them.
func (s *store) hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
}

func (s *store) deny(denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied = denied
}

// namespace deletes the namespace, with this error for creations, or creates it again if err is nil.
func (s *store) namespace(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noNamespace = err; err != nil {
		clear(s.leases)
	}
}

// drop deletes a Lease without its holder.
func (s *store) drop(release string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, Name(release))
}

func (s *store) of(release string) *coordinationv1.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[Name(release)].DeepCopy()
}

func (s *store) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}
