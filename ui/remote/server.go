package remote

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/engine/event"
	"lockstep/ui/board/inspector"
	"lockstep/ui/remote/protocol"
)

const (
	// stalled is how long a client may read nothing before it is given up.
	stalled = 30 * time.Second
	// farewell is how long clients have to read the end.
	farewell = 2 * time.Second
)

// Server lets others watch and steer a run until it is closed.
type Server struct {
	feed    *event.Feed
	command func(event.Command)
	ahead   inspector.Foresight // nil: nothing is known
	l       net.Listener
	path    string
	clients atomic.Int64
	serving sync.WaitGroup

	mu    sync.Mutex
	ends  bool // nobody is served any more who was not before
	conns map[net.Conn]bool
}

// Serve opens a socket in a folder, which is made if it is not there. Command
// must not block; ahead, which may be nil, is asked what the run does to objects, by
// several at a time.
//
// Rule R47: a run is steered from outside through a socket of the user's own
func Serve(dir string, feed *event.Feed, command func(event.Command), ahead inspector.Foresight) (*Server, error) {
	if err := own(dir); err != nil {
		return nil, fmt.Errorf("the folder of sockets: %w", err)
	}
	short, done, err := reach(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	name := fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:8])
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, name), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // by a path that may be gone
	s := &Server{feed: feed, command: command, ahead: ahead, l: l, path: filepath.Join(dir, name), conns: map[net.Conn]bool{}}
	if err = os.Chmod(s.path, 0o600); err == nil {
		err = os.Rename(s.path, s.path+suffix) // found from now on, when it listens
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	s.path += suffix
	go s.accept()
	return s, nil
}

// Clients is how many watch the run now.
func (s *Server) Clients() int { return int(s.clients.Load()) }

// Close takes the socket away. Clients have a moment to read the events that
// there are; the feed should be closed before.
func (s *Server) Close() {
	_ = s.l.Close()
	_ = os.Remove(s.path) // what is left is known to be dead by whoever finds it
	s.mu.Lock()
	s.ends = true // before the wait, which is for those who are served then
	s.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(farewell):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) accept() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return // it is closed, or nobody can come any more
		}
		s.mu.Lock()
		if s.ends {
			_ = c.Close()
		} else {
			s.conns[c] = true
			s.serving.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
	}
}

// serve hands the events to a client and takes its commands until it goes, or the
// feed ends.
func (s *Server) serve(c net.Conn) {
	s.clients.Add(1)
	ctx, gone := context.WithCancel(context.Background())
	defer func() {
		gone()
		s.clients.Add(-1)
		_ = c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	out := &lines{c: c}
	go func() {
		defer gone()
		s.obey(ctx, c, out)
	}()
	reader, present := s.feed.Reader(), "\n"
	for {
		events, more := reader.Next(ctx)
		if !more {
			return
		}
		for _, e := range events {
			line, err := json.Marshal(e)
			if err == nil {
				err = out.send(append(line, '\n'))
			}
			if err != nil {
				return
			}
		}
		if out.send([]byte(present)) != nil {
			return
		}
		present = ""
	}
}

// send writes to a client that has to read some of it now and then.
func send(c net.Conn, text []byte) error {
	for len(text) > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
			return err
		}
		n, err := c.Write(text[:min(len(text), 64<<10)])
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// lines are written to a client each as a whole, by several at a time.
type lines struct {
	mu sync.Mutex
	c  net.Conn
}

func (l *lines) send(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return send(l.c, text)
}

// obey passes commands on and answers questions until the client goes. An order that
// cannot be read is answered with why (R45).
func (s *Server) obey(ctx context.Context, c net.Conn, out *lines) {
	orders := protocol.NewDecoder(c)
	room := make(chan struct{}, answersAtOnce)
	reply := func(r protocol.Reply) {
		if line, err := r.Encode(); err == nil {
			_ = out.send(line) // the client is gone, or gives it up in time
		}
	}
	for {
		order, err := orders.Next()
		var bad *protocol.OrderError
		switch {
		case errors.As(err, &bad):
			reply(protocol.Reply{ID: bad.Order.ID, Command: bad.Order.Name, Error: bad.Error()})
		case err != nil:
			return
		case order.Ask != "":
			go func() {
				room <- struct{}{}
				defer func() { <-room }()
				reply(s.answer(ctx, order))
			}()
		default:
			s.command(order.Event())
		}
	}
}
