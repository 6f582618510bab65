// Package notify posts notices of a run to URLs: as CloudEvents, or as messages of Slack. The notices are made from events, whose
// texts have no secrets. The central type is Notifier. Only ui/cli imports it; it imports neither kube nor the screen.
package notify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/text"
	"lockstep/ui/post"
)

const (
	// postTimeout limits a request, flushTimeout how long Close waits.
	postTimeout  = 5 * time.Second
	flushTimeout = 2 * time.Second
	// queueSize limits the notices that wait for a URL; more are dropped.
	queueSize = 256
)

// Notifier posts the notices of the runs whose events it consumes, in order for each URL.
type Notifier struct {
	targets []*target

	mu    sync.Mutex
	begun bool         // by another process, so that Started is sent
	state *event.State // of the run, nil between two runs
	id    string       // of the run
	sent  int          // notices of the run
}

// target is a URL. A separate goroutine posts its notices.
type target struct {
	url    *url.URL // only its host may be shown: paths and queries may be secrets
	encode func(Notice) ([]byte, error)
	kind   string // Content-Type
	key    []byte // nil for no signature
	*post.Client

	queue  chan Notice
	done   chan struct{}
	cancel context.CancelFunc

	mu      sync.Mutex
	dropped int   // notices
	err     error // why the last of those was
}

// Start returns a Notifier for the URLs of --notify, nil for none. keyFile has the key of the signatures, "" for none.
func Start(urls []string, keyFile string) (*Notifier, error) {
	if len(urls) == 0 {
		if keyFile != "" {
			return nil, errors.New("--notify-key-file needs --notify")
		}
		return nil, nil
	}
	var key []byte
	if keyFile != "" {
		text, err := os.ReadFile(keyFile)
		if err != nil {
			return nil, fmt.Errorf("--notify-key-file: %w", err)
		}
		if key, err = parseKey(string(text)); err != nil {
			return nil, fmt.Errorf("--notify-key-file %s: %w", keyFile, err)
		}
	}
	n := &Notifier{}
	for _, text := range urls {
		t, err := parseTarget(text)
		if err != nil {
			return nil, fmt.Errorf("--notify: %w", err)
		}
		t.key = key
		n.targets = append(n.targets, t)
	}
	for _, t := range n.targets {
		t.start()
	}
	return n, nil
}

// parseTarget reads a URL. Its errors do not have the text, which may be a secret.
func parseTarget(text string) (*target, error) {
	slack, isSlack := strings.CutPrefix(text, "slack+")
	u, err := url.Parse(slack)
	switch {
	case err != nil, u.Host == "":
		return nil, errors.New("invalid URL: use https://HOST/PATH, http://HOST/PATH or slack+https://HOST/PATH")
	case !slices.Contains([]string{"https", "http"}, u.Scheme):
		return nil, errors.New("URL with an unknown scheme: use https://, http:// or slack+https://")
	}
	t := &target{url: u, encode: Notice.cloudEvent, kind: "application/cloudevents+json; charset=UTF-8"}
	if isSlack {
		t.encode, t.kind = Notice.slack, "application/json"
	}
	return t, nil
}

func (t *target) start() {
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.queue, t.done = make(chan Notice, queueSize), make(chan struct{})
	t.Client = post.New(http.DefaultTransport.(*http.Transport).Clone())
	go func() {
		defer close(t.done)
		for n := range t.queue {
			if err := t.post(ctx, n); err != nil {
				t.drop(err)
			}
		}
	}()
}

// drop counts a notice that was not sent.
func (t *target) drop(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropped++
	t.err = err
}

// Continue says that another process has begun the run: Started is not sent again.
func (n *Notifier) Continue() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun = true
}

// Consume makes notices from an event. It never waits.
func (n *Notifier) Consume(e event.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state == nil {
		if e.Kind != event.KindOperation {
			return
		}
		n.state, n.id, n.sent = &event.State{}, rand.Text(), 0
	}
	n.state.Apply(e)
	if notice, worth := noticeOf(n.state, e); worth && !(notice.Type == Started && n.begun) {
		n.sent++
		notice.ID = fmt.Sprintf("%s-%d", n.id, n.sent)
		for _, t := range n.targets {
			select {
			case t.queue <- notice:
			default:
				t.drop(errors.New("too many notices"))
			}
		}
	}
	if !n.state.Ended.IsZero() {
		n.state = nil
	}
}

// Close posts the notices that are left, for at most flushTimeout. Its error says how many were not sent, without the URLs.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	ended := time.After(flushTimeout)
	for _, t := range n.targets {
		t.Client.Close()
		close(t.queue)
	}
	var errs []error
	for _, t := range n.targets {
		select {
		case <-t.done:
		case <-ended:
			ended = time.After(0)
			t.cancel()
			<-t.done
		}
		t.cancel()
		if t.dropped > 0 {
			errs = append(errs, fmt.Errorf("%s for %s not sent: %w", text.Count(t.dropped, "notice"), t.url.Host, t.err))
		}
	}
	return errors.Join(errs...)
}
