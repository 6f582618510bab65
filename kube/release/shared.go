package release

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// sharedRead is a list of the records that later reads of the same records share. It is never changed.
type sharedRead struct {
	selector string
	list     runtime.Object // nil until it is read
	began    time.Time      // when it was requested
}

// ReadOnce makes the next list of the records a new one, which the lists after it share: Helm's actions, and the plan of an operation,
// read the records several times. They share it until the run writes a record or waits, until ReadAgain, and, once the run has started,
// for as long as a look suffices for a write. Use it for a plan, or if the next write of a record creates one: the API server refuses
// that if somebody else has created the same revision since.
func (l *Ledger) ReadOnce() { l.share(&sharedRead{}) }

// ReadAgain ends ReadOnce.
func (l *Ledger) ReadAgain() { l.share(nil) }

func (l *Ledger) share(s *sharedRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shared = s
}

// sharedRead returns a copy of the list that a read shares, or a part of it, nil if it must be sent. Then into is where to keep its list, nil for
// nowhere.
func (l *Ledger) sharedRead(selector string) (list runtime.Object, into *sharedRead) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shared
	switch {
	case s == nil || l.lost != nil:
		return nil, nil
	case s.list == nil:
		return nil, s
	case !strings.HasPrefix(selector+",", s.selector+",") || l.sealed && l.since(s.began) > maxLookAge:
		return nil, nil
	}
	return selected(s.list, selector), nil
}

// selected returns a copy of the objects in a list that have some labels, nil if that fails.
func selected(list runtime.Object, selector string) runtime.Object {
	wanted, err := labels.Parse(selector)
	if err != nil {
		return nil
	}
	var some []runtime.Object
	out := list.DeepCopyObject()
	err = meta.EachListItem(out, func(o runtime.Object) error {
		if wanted.Matches(labels.Set(o.(metav1.Object).GetLabels())) {
			some = append(some, o)
		}
		return nil
	})
	if err != nil || meta.SetList(out, some) != nil {
		return nil
	}
	return out
}

// keep keeps a list in what sharedRead returned, unless that has ended since.
func (l *Ledger) keep(into *sharedRead, selector string, list runtime.Object, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if into != nil && l.shared == into && into.list == nil {
		*into = sharedRead{selector, list.DeepCopyObject(), began}
	}
}
