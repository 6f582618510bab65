package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/remote/protocol"
)

// helloTimeout is how long a run may take to accept a connection and send its first event.
const helloTimeout = 10 * time.Second

// ErrLost means that the connection ended before the run: its process was killed, or this
// one did not read for too long.
var ErrLost = errors.New("lost the connection to the run before it ended")

// Run is a run of another process.
type Run struct {
	Operation event.Operation
	// By names this user to a run that serves several; "" elsewhere. It is set before the
	// first command.
	By string

	conn    io.ReadWriteCloser
	feed    event.Feed
	present chan struct{} // closed when all past events have arrived
	ended   chan struct{} // closed after the last event
	why     error         // what ended the connection; set before ended is closed
	orders  *orders       // to send

	relaying sync.Mutex
	last     uint64 // Seq of the last event of the run

	mu    sync.Mutex
	asked map[string]chan protocol.Reply // by ID of the question
}

// Runs connects to all runs that have a socket in a directory. The caller closes them.
// Sockets of dead processes are removed.
func Runs(dir string) ([]*Run, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = checkPrivate(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("directory of sockets: %w", err)
	}
	short, done, err := shortPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	var (
		mu   sync.Mutex
		runs []*Run
		all  sync.WaitGroup
	)
	for _, e := range entries {
		if info, err := e.Info(); err != nil || !strings.HasSuffix(e.Name(), suffix) || info.Mode().Type() != fs.ModeSocket || !ours(info) {
			continue
		}
		all.Go(func() {
			r, err := dial(filepath.Join(short, e.Name()))
			if errors.Is(err, syscall.ECONNREFUSED) {
				_ = os.Remove(filepath.Join(dir, e.Name())) // it may be gone already
			}
			if err != nil {
				return // it just ended, or does not respond
			}
			mu.Lock()
			defer mu.Unlock()
			runs = append(runs, r)
		})
	}
	all.Wait()
	slices.SortFunc(runs, func(a, b *Run) int { return strings.Compare(a.String(), b.String()) })
	return runs, nil
}

// dial connects to a run through a socket and reads its first event.
func dial(path string) (*Run, error) {
	conn, err := net.DialTimeout("unix", path, helloTimeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	r, err := Connect(conn)
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to the run at %s: %w", path, err)
	}
	return r, nil
}

// Connect returns the run on the other side of a connection once its first event has come.
// It closes the connection with the run, or if there is an error.
func Connect(conn io.ReadWriteCloser) (*Run, error) {
	r := &Run{conn: conn, present: make(chan struct{}), ended: make(chan struct{}), orders: newOrders(), asked: map[string]chan protocol.Reply{}}
	lines := bufio.NewReader(conn)
	var err error
	for err == nil && len(r.feed.Events()) == 0 {
		err = r.readLine(lines)
	}
	if err == nil && r.feed.Events()[0].Operation == nil {
		err = errors.New("its first event is not an operation")
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	r.Operation = *r.feed.Events()[0].Operation
	go r.read(lines)
	go r.send()
	return r, nil
}

// readLine handles a line: an event, a reply, or the empty line after all past events.
func (r *Run) readLine(lines *bufio.Reader) error {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(line)) == 0 {
		select {
		case <-r.present:
		default:
			close(r.present)
		}
		return nil
	}
	if a, is, err := protocol.DecodeReply(line); is {
		if err == nil { // else the question times out
			r.replied(a)
		}
		return nil
	}
	var e event.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	r.relaying.Lock()
	defer r.relaying.Unlock()
	r.last = e.Seq
	r.feed.Relay(e)
	return nil
}

func (r *Run) read(lines *bufio.Reader) {
	for r.why == nil {
		r.why = r.readLine(lines)
	}
	r.feed.Close()
	close(r.ended)
	_ = r.conn.Close()
}

func (r *Run) send() {
	defer r.conn.Close() // also ends read
	for {
		select {
		case <-r.orders.ready:
			for _, line := range r.orders.take() {
				if err := send(r.conn, line); err != nil && !r.refuseLine(line, err) {
					return
				}
			}
		case <-r.ended:
			return
		}
	}
}

// refuseLine refuses an order that was not sent. It reports false for a connection that is
// broken.
func (r *Run) refuseLine(line []byte, why error) bool {
	var order protocol.Order
	if _, socket := r.conn.(net.Conn); socket || json.Unmarshal(line, &order) != nil {
		return false
	}
	r.replied(protocol.Reply{ID: order.ID, Command: order.Name, Error: why.Error()})
	return true
}

// Feed has the events of the run. It ends with the run or the connection.
func (r *Run) Feed() *event.Feed { return &r.feed }

// Command sends a command without blocking. An event answers it, unless the feed ends. If
// it cannot be sent, Command adds that event itself.
func (r *Run) Command(c event.Command) {
	c.By = r.By
	if err := r.orders.put(protocol.OfCommand(c)); err != nil {
		r.refuse(c, err.Error())
	}
}

// refuse adds the refusal of a command to the feed on behalf of the run.
func (r *Run) refuse(c event.Command, reason string) {
	r.relaying.Lock()
	defer r.relaying.Unlock()
	e := event.Event{Seq: r.last, Time: time.Now().UTC(), Kind: event.KindCommand, Command: c.Name, Answers: c.ID, Phase: c.Phase, Group: c.Group, Status: event.Refused, Message: reason}
	r.feed.Relay(e)
}

// Warn adds a warning about the run to the feed.
func (r *Run) Warn(message string) {
	r.relaying.Lock()
	defer r.relaying.Unlock()
	r.feed.Relay(event.Event{Seq: r.last, Time: time.Now().UTC(), Kind: event.KindWarning, Message: message})
}

// Ask sends a command and waits for the event that answers it. The error is ErrLost, that
// of ctx, why the command could not be sent, or that the run is over.
func (r *Run) Ask(ctx context.Context, c event.Command) (event.Event, error) {
	c.ID, c.By = rand.Text(), r.By
	reader := r.feed.Reader()
	if err := r.orders.put(protocol.OfCommand(c)); err != nil {
		return event.Event{}, err
	}
	for {
		events, more := reader.Next(ctx)
		for _, e := range events {
			if e.Kind == event.KindCommand && e.Answers == c.ID {
				return e, nil
			}
		}
		switch {
		case more:
		case ctx.Err() != nil:
			return event.Event{}, context.Cause(ctx)
		case r.Err() != nil:
			return event.Event{}, ErrLost
		default:
			return event.Event{}, errors.New("the operation is over")
		}
	}
}

// Now is the current state of the run.
func (r *Run) Now(ctx context.Context) *event.State {
	select {
	case <-r.present:
	case <-r.ended:
	case <-ctx.Done():
	}
	s := &event.State{}
	for _, e := range r.feed.Events() {
		s.Apply(e)
	}
	return s
}

// Err is why the feed ended before the run, nil if it did not. Call it after the end of the
// feed. The error is ErrLost, or has the method ExitCode if the connection knows how the run
// ended.
func (r *Run) Err() error {
	events := r.feed.Events()
	if events[len(events)-1].Exit != nil {
		return nil
	}
	<-r.ended
	if _, ok := r.why.(interface{ ExitCode() int }); ok {
		return r.why
	}
	return ErrLost
}

// Lost reports whether the connection ended before the run.
func (r *Run) Lost() bool {
	select {
	case <-r.ended:
		return r.Err() != nil
	default:
		return false
	}
}

// Close disconnects from the run, which continues.
func (r *Run) Close() { _ = r.conn.Close() }

func (r *Run) String() string {
	where := "in namespace " + r.Operation.Namespace
	if r.Operation.Context != "" {
		where += " of context " + r.Operation.Context
	}
	return fmt.Sprintf("%s %s %s", r.Operation.Name, r.Operation.Release, where)
}
