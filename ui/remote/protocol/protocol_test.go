package protocol

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"lockstep/engine/event"
)

// TestOrdersAreReadOneByOne reads commands, questions and lines that are neither: each
// of the latter is answered, and the ones after it are read (R45).
func TestOrdersAreReadOneByOne(t *testing.T) {
	long := `{"command":"edit","id":"1","values":"` + strings.Repeat("x", MaxOrder) + `"}`
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
		var bad *OrderError
		switch {
		case tc.want == "" && (err != nil || o.ID != tc.id):
			t.Errorf("%.50s: %+v, %v", tc.line, o, err)
		case tc.want != "" && (!errors.As(err, &bad) || bad.Order.ID != tc.id || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%.50s: %v", tc.line, err)
		}
		if o, err := d.Next(); err != nil || o.Name != event.Step { // without an end of its line
			t.Errorf("after %.50s: %+v, %v", tc.line, o, err)
		}
		if _, err := d.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("at the end: %v", err)
		}
	}
}

// FuzzDecode reads what a client may send: no line stops the ones after it, and what is
// read comes back the same when it is sent.
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
			var bad *OrderError
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
			if back, err := NewDecoder(bytes.NewReader(line)).Next(); err != nil || back != o {
				t.Fatalf("%+v comes back as %+v, %v", o, back, err)
			}
		}
		t.Fatal("there are more orders than lines")
	})
}

// FuzzDecodeReply reads what a run may send.
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
