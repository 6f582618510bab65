package remote

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/engine/event"
)

// pipe is a connection to a run in the cluster whose log the test writes.
type pipe struct {
	io.Reader
	*io.PipeWriter // of the log; Close ends the connection
}

func (pipe) Write(line []byte) (int, error) { return len(line), nil }

const operationLine = `{"seq":1,"kind":"operation","status":"running","operation":{"name":"install","release":"s","namespace":"n"}}` + "\n"

// connectLog returns the run whose log starts with text, and a function that writes more of the log.
func connectLog(t *testing.T, text string) (*Run, func(string)) {
	t.Helper()
	lines, w := io.Pipe()
	write := func(text string) {
		if _, err := io.WriteString(w, text); err != nil {
			t.Error(err)
		}
	}
	go write(operationLine + text)
	r, err := Connect(pipe{lines, w})
	if err != nil {
		t.Fatal(err)
	}
	return r, write
}

// TestLostCommand: Do fails if the pod of the run is replaced and the new one does not reply.
func TestLostCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, write := connectLog(t, "\n")
		defer r.Close()
		go func() {
			time.Sleep(time.Hour) // a slow run may still reply
			write(strings.Replace(operationLine, `"seq":1`, `"seq":2`, 1))
		}()
		start := time.Now()
		_, err := r.Do(t.Context(), event.Command{Name: event.Pause})
		if took := time.Since(start); !errors.Is(err, errNoReply) || took != time.Hour+replyTimeout {
			t.Errorf("after %s: %v, want errNoReply", took, err)
		}
	})
}

// TestRepliesToOthers: of the replies to other clients in the log of a run, only refused commands are shown.
func TestRepliesToOthers(t *testing.T) {
	r, write := connectLog(t, `{"reply":{"id":"a","error":"the edited chart fails to render"}}`+"\n"+`{"reply":{"id":"b","command":"pause","error":"too new"}}`+"\n\n")
	defer r.Close()
	r.Now(t.Context())
	if events := r.Feed().Events(); len(events) != 2 || events[1].Command != event.Pause || events[1].Message != "too new" {
		t.Errorf("got events %+v", events)
	}
	write(`{"seq":2,"kind":"operation","scope":"n/s","status":"succeeded","exit":0}` + "\n")
	r.Close()
	<-r.ended
	if !r.Lost() {
		t.Error("the end of one release counts as the end of the run")
	}
}

// TestWaitingRun: a run waits for its pod until that sends an event.
func TestWaitingRun(t *testing.T) {
	r, write := connectLog(t, "\n")
	defer r.Close()
	r.Now(t.Context())
	r.SetWaiting("no pods can be created")
	if r.Warn("waiting for the Job's pod"); r.Waiting() != "no pods can be created" {
		t.Errorf("it waits for %q", r.Waiting())
	}
	write(`{"seq":2,"kind":"log"}` + "\n\n") // once the second line is read, the first one is handled
	if r.Waiting() != "" {
		t.Errorf("although its pod sends events, it waits for %q", r.Waiting())
	}
}
