package protocol

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestDecoder reads valid requests, and invalid lines, which do not prevent reading the next line
// (R45).
func TestDecoder(t *testing.T) {
	long := `{"command":"edit","id":"1","values":"` + strings.Repeat("x", MaxRequest) + `"}`
	for _, tc := range []struct{ line, id, want string }{
		{`{"command":"pause"}`, "", ""},
		{`{"command":"pause","id":"1","version":1,"later":{"a":1}}`, "1", ""},
		{`{"ask":"sent","id":"2","object":{"kind":"Job"}}`, "2", ""},
		{`{"command":"pause","id":"3","version":2}`, "3", "version 2"},
		{`{"command":"pause","id":"3","version":-1}`, "3", "version -1"},
		{`{"id":"4"}`, "4", "neither"},
		{`pause`, "", "a JSON object on one line"},
		{``, "", "a JSON object on one line"},
		{long, "", "the limit is 16 MiB"},
	} {
		d := NewDecoder(strings.NewReader(tc.line + "\n" + `{"command":"step"}`))
		o, err := d.Next()
		var bad *RequestError
		switch {
		case tc.want == "" && (err != nil || o.ID != tc.id):
			t.Errorf("%.50s: %+v, %v", tc.line, o, err)
		case tc.want != "" && (!errors.As(err, &bad) || bad.Request.ID != tc.id || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%.50s: %v", tc.line, err)
		}
		if o, err := d.Next(); err != nil || o.Name != event.Step { // without a line end
			t.Errorf("after %.50s: %+v, %v", tc.line, o, err)
		}
		if _, err := d.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
}

// TestCommandRequest: a command for the engine comes back whole, also one for a release of a stack.
func TestCommandRequest(t *testing.T) { // R47
	c := event.Command{Name: event.RunTo, Scope: "n/web", Phase: "apply", Group: "web:db", Via: "v", Reason: "r", KnowsRollback: true, ID: "1", Values: "a: 1", Edit: 2}
	line, err := CommandRequest(c).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if r, err := NewDecoder(bytes.NewReader(line)).Next(); err != nil || !reflect.DeepEqual(r.EventCommand(), c) {
		t.Errorf("%s comes back as %+v, %v", line, r.EventCommand(), err)
	}
}

// FuzzDecode: no line prevents reading the next one, and requests round-trip.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"command":"pause","reason":"r","told":true,"id":"1"}`, `{"ask":"change","phase":"apply","group":"a:b","kind":"apply","object":{"kind":"Job","name":"x"}}`,
		`{"command":"edit","values":"a: 1\n"}`, `{"version":7}`, "{", "\n\n", "[]", "null", `{"id":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d := NewDecoder(bytes.NewReader(text))
		for range bytes.Count(text, []byte{'\n'}) + 2 {
			o, err := d.Next()
			var bad *RequestError
			switch {
			case errors.As(err, &bad):
				continue
			case err != nil:
				return
			}
			line, err := o.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if back, err := NewDecoder(bytes.NewReader(line)).Next(); err != nil || !reflect.DeepEqual(back, o) {
				t.Fatalf("%+v comes back as %+v, %v", o, back, err)
			}
		}
		t.Fatal("got more requests than lines")
	})
}

// FuzzDecodeReply: replies round-trip.
func FuzzDecodeReply(f *testing.F) {
	f.Add([]byte(`{"reply":{"id":"1","change":{"action":"change","fields":[{"in":"spec","lines":["+a: 1"]}]}}}`))
	f.Add([]byte(`{"reply":`))
	f.Add([]byte(`{"seq":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, is, err := DecodeReply(line)
		if !is || err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, is, err := DecodeReply(again); !is || err != nil || back.ID != r.ID || back.Text != r.Text || back.Error != r.Error {
			t.Fatalf("%+v comes back as %+v, %v", r, back, err)
		}
	})
}
