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

// store keeps Leases in memory, as for the pace of a synctest; what a real API
// server does is tested beside its users.
type store struct {
	Client // what is not needed

	mu      sync.Mutex
	leases  map[string]*coordinationv1.Lease
	version int
	calls   []string
	// away lets requests fail, lost only their answers.
	away, lost bool
	// slow is how long a request takes; while held is set it takes until that is over.
	slow time.Duration
	held bool
	// denied lets all requests but those that read be refused; noNamespace is why nothing can be made.
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

// answer notes a request, and lets it fail where that was asked for.
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

// wait takes as long as a request does.
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

// hold keeps requests waiting, or lets them go.
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

// namespace deletes the namespace where err says so, or makes it again.
func (s *store) namespace(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noNamespace = err; err != nil {
		clear(s.leases)
	}
}

// drop deletes a Lease behind its holder's back.
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
