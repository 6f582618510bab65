package remote

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
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

// greeting is how long a run may take to say what it is.
const greeting = 10 * time.Second

// ErrLost is why a run has ended that did not say so: its process is gone, or
// this one did not read for too long.
var ErrLost = errors.New("the connection to the run was lost before its end")

// Run is a run of another process.
type Run struct {
	Operation event.Operation

	conn    net.Conn
	feed    event.Feed
	present chan struct{} // closed when all events until now are there
	ended   chan struct{} // closed when no more come
	orders  *orders       // commands and questions to send

	relaying sync.Mutex
	last     uint64 // the number of the last event that the run has sent

	mu    sync.Mutex
	asked map[string]chan protocol.Reply // by the question's id
}

// Runs are the live runs whose sockets are in a folder; each has to be closed. A
// socket that a dead process has left is removed.
func Runs(dir string) ([]*Run, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = trusted(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("the folder of sockets: %w", err)
	}
	short, done, err := reach(dir)
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
				_ = os.Remove(filepath.Join(dir, e.Name())) // another may have done so
			}
			if err != nil {
				return // it has just ended, or does not answer
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

// dial joins a run and reads what it is.
func dial(path string) (*Run, error) {
	conn, err := net.DialTimeout("unix", path, greeting)
	if err != nil {
		return nil, err
	}
	r := &Run{conn: conn, present: make(chan struct{}), ended: make(chan struct{}), orders: newOrders(), asked: map[string]chan protocol.Reply{}}
	lines := bufio.NewReader(conn)
	err = conn.SetReadDeadline(time.Now().Add(greeting))
	if err == nil {
		err = r.readLine(lines)
	}
	if err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	if first := r.feed.Events(); err == nil && (len(first) == 0 || first[0].Operation == nil) {
		err = errors.New("it does not say what it is")
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("join the run at %s: %w", path, err)
	}
	r.Operation = *r.feed.Events()[0].Operation
	go r.read(lines)
	go r.send()
	return r, nil
}

// readLine takes a line, which is an event, says that the present is reached, or
// answers a question.
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
		if err == nil { // or else who has asked gives up in time
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
	for r.readLine(lines) == nil {
	}
	r.feed.Close()
	close(r.ended)
	_ = r.conn.Close()
}

func (r *Run) send() {
	defer r.conn.Close() // reading ends as well, and whoever waits for an answer learns of it
	for {
		select {
		case <-r.orders.ready:
			for _, line := range r.orders.take() {
				if send(r.conn, line) != nil {
					return
				}
			}
		case <-r.ended:
			return
		}
	}
}

// Feed is the record of the run. It ends with the run, or with the connection.
func (r *Run) Feed() *event.Feed { return &r.feed }

// Command gives an order to the run. It does not block; what becomes of the order, an
// event tells, or the end of the feed. Where it cannot be sent, that event is made here.
func (r *Run) Command(c event.Command) {
	if err := r.orders.put(protocol.OfCommand(c)); err != nil {
		r.refuse(c, err.Error())
	}
}

// refuse adds an event to the feed that the run has not sent: it has not taken a
// command.
func (r *Run) refuse(c event.Command, why string) {
	r.relaying.Lock()
	defer r.relaying.Unlock()
	e := event.Event{Seq: r.last, Time: time.Now().UTC(), Kind: event.KindCommand, Command: c.Name, Answers: c.ID, Phase: c.Phase, Group: c.Group, Status: event.Refused, Message: why}
	r.feed.Relay(e)
}

// Ask gives an order and waits for the event that answers it. The error is
// ErrLost, that of ctx, why the order was not taken, or that the run has ended.
func (r *Run) Ask(ctx context.Context, c event.Command) (event.Event, error) {
	c.ID = rand.Text()
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

// Now is how the run stands.
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

// Err is why the run is not seen to its end, once its feed has ended.
func (r *Run) Err() error {
	events := r.feed.Events()
	if events[len(events)-1].Exit == nil {
		return ErrLost
	}
	return nil
}

// Lost reports whether the connection has ended before the run.
func (r *Run) Lost() bool {
	select {
	case <-r.ended:
		return r.Err() != nil
	default:
		return false
	}
}

// Close leaves the run, which goes on.
func (r *Run) Close() { _ = r.conn.Close() }

func (r *Run) String() string {
	where := "in namespace " + r.Operation.Namespace
	if r.Operation.Context != "" {
		where += " of context " + r.Operation.Context
	}
	return fmt.Sprintf("%s %s %s", r.Operation.Name, r.Operation.Release, where)
}
