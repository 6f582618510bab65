package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/run"
)

// memory is a Store for several processes.
type memory struct {
	data    []byte
	version int
	fail    func() error // called before each write, may be nil
}

type memoryStore struct {
	*memory
	seen int
}

func (s *memoryStore) Load(context.Context) ([]byte, error) {
	s.seen = s.version
	return s.data, nil
}

func (s *memoryStore) Save(_ context.Context, data []byte) error {
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return err
		}
	}
	if s.seen != s.version {
		return fmt.Errorf("save: %w", ErrChanged)
	}
	s.version++
	s.data, s.seen = data, s.version
	return nil
}

func randomKept(r *rand.Rand) Kept {
	k := Kept{Start: &Start{Last: r.IntN(4), Good: r.IntN(3)}}
	if r.IntN(2) == 0 {
		k.Edit = &Edit{Values: fmt.Sprintf("a: %d\n", r.IntN(9))}
	}
	if r.IntN(2) == 0 {
		k.Steering = &run.Steering{Paused: r.IntN(2) == 0, Passed: []event.Unit{{Phase: "apply", Group: "a"}}}
	}
	return k
}

// TestNextPodReadsWhatWasKept (S13): a process that opens the journal has exactly what was kept by completed writes. A
// write that failed, or whose process was killed, has no part of it.
func TestNextPodReadsWhatWasKept(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		shared := &memory{}
		want := map[string]Kept{}
		var began time.Time
		for pod := range 4 {
			shared.fail = nil
			j, err := Open(t.Context(), &memoryStore{memory: shared}, fmt.Sprint("pod ", pod))
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"", "ns/a", "ns/b"} {
				if got := j.Entry(id).Before(); !reflect.DeepEqual(got, want[id]) {
					t.Fatalf("seed %d, pod %d: %q has kept %+v, want %+v", seed, pod, id, got, want[id])
				}
			}
			at, earlier := j.Begun()
			if pod == 0 {
				began = at
			}
			if began.IsZero() || !at.Equal(began) || earlier != (len(want) > 0) {
				t.Fatalf("seed %d, pod %d: begun %v, %v, want %v", seed, pod, at, earlier, began)
			}
			killedAt := r.IntN(6)
			shared.fail = func() error {
				if killedAt--; killedAt < 0 {
					return errors.New("killed")
				}
				return nil
			}
			for range 6 {
				id, kept := []string{"", "ns/a", "ns/b"}[r.IntN(3)], randomKept(r)
				if j.Entry(id).Keep(t.Context(), func(k *Kept) { *k = kept }) == nil {
					want[id] = kept
				}
			}
		}
	}
}

// TestReplacedPodKeepsNothing: a process that another one has replaced changes nothing.
func TestReplacedPodKeepsNothing(t *testing.T) {
	shared := &memory{}
	first, err := Open(t.Context(), &memoryStore{memory: shared}, "first")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), &memoryStore{memory: shared}, "second"); err != nil {
		t.Fatal(err)
	}
	before := shared.version
	err = first.Entry("").Keep(t.Context(), func(k *Kept) { k.Start = &Start{} })
	if !errors.Is(err, ErrReplaced) || shared.version != before {
		t.Errorf("a replaced process keeps: %v, version %d after %d", err, shared.version, before)
	}
}

// TestAcceptedEditContinues: the next pod continues with an accepted edit, even if its revision has not started. A pause
// and breakpoints stay; what had started does not.
func TestAcceptedEditContinues(t *testing.T) {
	k := Kept{
		Edit: &Edit{Values: "a: 1"}, Next: &Edit{Values: "a: 2"},
		Steering: &run.Steering{
			Paused: true, Passed: []event.Unit{{Phase: "apply", Group: "a"}}, Ending: &run.KeptEnding{Name: event.Edit, Edit: 1},
			Breakpoints: []run.KeptBreakpoint{{Unit: event.Unit{Phase: "apply", Group: "b"}, Status: event.Set, Reached: true, Waiting: true}},
		},
	}
	next := k.Continue()
	if s := next.Steering; next.Edit.Values != "a: 2" || next.Next != nil || !s.Paused || s.Ending != nil || s.Passed != nil || len(s.Breakpoints) != 1 || s.Breakpoints[0].Reached {
		t.Errorf("after an accepted edit: %+v, %+v", next, next.Steering)
	}
	k.Steering.Ending = &run.KeptEnding{Name: event.Abort} // it replaced the edit
	if next := k.Continue(); next.Edit.Values != "a: 1" || next.Steering.Ending == nil {
		t.Errorf("after an abort: %+v", next)
	}
}

// TestTooLarge: what does not fit is refused before it is written.
func TestTooLarge(t *testing.T) {
	shared := &memory{}
	j, err := Open(t.Context(), &memoryStore{memory: shared}, "pod")
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 2<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for i, b := range noise {
		noise[i] = ' ' + b%90
	}
	large := func(k *Kept) { k.Next = &Edit{Values: string(noise)} }
	before := shared.version
	for _, err := range []error{j.Entry("").Fits(large), j.Entry("").Keep(t.Context(), large)} {
		if too := (*TooLargeError)(nil); !errors.As(err, &too) || !strings.Contains(err.Error(), "abort the run") {
			t.Errorf("2 MiB of noise: %v", err)
		}
	}
	if err := j.Entry("").Fits(func(k *Kept) { k.Next = &Edit{Values: strings.Repeat("a: b\n", 400<<10)} }); err != nil {
		t.Errorf("2 MiB of the same line: %v", err)
	}
	if shared.version != before {
		t.Error("it was written")
	}
}

// FuzzDecode: whatever is in the Secret, reading it does not panic, and what can be read can be written again.
func FuzzDecode(f *testing.F) {
	data, _ := encode(state{Version: version, Writer: "pod", Entries: map[string]Kept{"": {Start: &Start{Last: 3}}}})
	f.Add(data)
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decode(data)
		if err != nil || len(data) == 0 {
			return
		}
		again, err := encode(s)
		if err != nil {
			return
		}
		if back, err := decode(again); err != nil || !reflect.DeepEqual(back, s) {
			t.Errorf("%+v was read back as %+v, %v", s, back, err)
		}
	})
}

// TestUnwritable (S13): a process that cannot become the writer knows what earlier ones have kept, so that it can end the run. If there
// was none, it does not start.
func TestUnwritable(t *testing.T) {
	shared, refused := &memory{}, errors.New("refused by a policy")
	refuse := func() error { return refused }
	shared.fail = refuse
	if j, err := Open(t.Context(), &memoryStore{memory: shared}, "first"); j != nil || !errors.Is(err, refused) {
		t.Errorf("nothing has begun: %v", err)
	}
	shared.fail = nil
	first, err := Open(t.Context(), &memoryStore{memory: shared}, "first")
	if err == nil {
		err = first.Entry("").Keep(t.Context(), func(k *Kept) { k.Start = &Start{Last: 3} })
	}
	if err != nil {
		t.Fatal(err)
	}
	shared.fail = refuse
	next, err := Open(t.Context(), &memoryStore{memory: shared}, "next")
	if err != nil {
		t.Fatal(err)
	}
	if _, begun := next.Begun(); !begun || !errors.Is(next.Err(), refused) || !errors.Is(next.Entry("").Err(), refused) || next.Entry("").Before().Start.Last != 3 {
		t.Errorf("begun %v, %v, kept %+v", begun, next.Err(), next.Entry("").Before())
	}
	if err := next.Entry("").Keep(t.Context(), func(*Kept) {}); !errors.Is(err, refused) {
		t.Errorf("kept: %v", err)
	}
	if first.Err() != nil || (*Journal)(nil).Err() != nil || (*Entry)(nil).Err() != nil {
		t.Error("the others can write")
	}
}
