package status

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pollers limits the concurrent requests of getAll.
const pollers = 8

// poll replaces watching, because listing or watching failed with why: it is forbidden or not supported. It lists the
// objects at intervals or, if listing is what failed, gets each subscribed object.
func (s *source) poll(ctx context.Context, mayList bool, why error) {
	every := s.stream.hub.options.Poll
	verb, instead := "watch", "polling"
	if !mayList {
		verb, instead = "list", "reading each object"
	}
	problem := "no permission to"
	if apierrors.IsMethodNotSupported(why) {
		problem = "the API server cannot"
	}
	s.stream.notice(fmt.Sprintf("%s %s %s; %s every %s instead", problem, verb, s.stream.key, instead, every), true)
	for ctx.Err() == nil {
		var err error
		if mayList {
			_, err = s.list(ctx)
			mayList = !denied(err)
		} else {
			err = s.getAll(ctx)
		}
		switch {
		case denied(err):
		case err != nil:
			s.pause(ctx, err)
		default:
			s.failures = 0
			s.recovered()
			select {
			case <-ctx.Done():
			case <-time.After(jitter(every)):
			case <-s.wake:
			}
		}
	}
}

// getAll gets each subscribed object once. It returns the first temporary error.
func (s *source) getAll(ctx context.Context) error {
	var all errgroup.Group
	all.SetLimit(pollers)
	for _, name := range s.stream.names() {
		all.Go(func() error { return s.get(ctx, name) })
	}
	return all.Wait()
}

// get reads one object and sends the result to the stream: the object, that it is missing, or that it cannot be read. It
// returns only temporary errors.
func (s *source) get(ctx context.Context, name types.NamespacedName) error {
	u, err := s.client().Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.send(ctx, delta{put: s.stream.hub.trim(u)})
	case apierrors.IsNotFound(err):
		s.send(ctx, delta{gone: name})
	case denied(err):
		s.send(ctx, delta{unreadable: name, why: "cannot be read: " + err.Error()})
	default:
		return err
	}
	return nil
}
