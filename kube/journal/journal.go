// Package journal has what a run in the cluster keeps with its Job, for the pod that replaces its own (S13): where each
// release was when the run began, and what commands and breakpoints have decided since. A Journal is in memory and is
// written as a whole, through a Store; an Entry is the part of one release, or of a stack itself. It imports only
// the engine and kube/planfile.
package journal

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/run"
	"lockstep/kube/planfile"
)

// Kept is what a run keeps about one release or, under the ID "", about a stack.
type Kept struct {
	// Start is kept before the first write to the release.
	Start *Start `json:"start,omitempty"`
	// Steering is kept before a command takes effect.
	Steering *run.Steering `json:"steering,omitempty"`
	// Edit is the edit (R46) whose revision runs, Next the accepted one whose revision has not started.
	Edit *Edit `json:"edit,omitempty"`
	Next *Edit `json:"next,omitempty"`
	// Shown is what those were shown who have approved something of the release, or all of it (R42a).
	Shown *planfile.Shown `json:"shown,omitempty"`
	// RollBack are the releases of a stack that its rollback covers.
	RollBack []string `json:"rollBack,omitempty"`
}

// Start is the state of a release when the run began.
type Start struct {
	Last int `json:"last,omitempty"` // the latest revision, 0 for none
	// Records are the UIDs of the records, by revision. One of the same number may be that of a new installation by somebody
	// else, whose clock may be wrong.
	Records map[int]string `json:"records,omitempty"`
	Good    int            `json:"good,omitempty"` // the revision to roll back to, 0 for none
}

// Edit is an edit of a run.
type Edit struct {
	Values string `json:"values"` // all values of the user, as documents.EncodeExact writes them
}

// Continue returns how the next pod continues: an accepted edit has taken effect.
func (k Kept) Continue() Kept {
	if k.Steering != nil && k.Steering.Ending != nil && k.Steering.Ending.Name == event.Edit {
		edited := k.Steering.ForEdit()
		k.Steering = &edited
		if k.Next != nil {
			k.Edit = k.Next
		}
	}
	k.Next = nil
	return k
}

// Ending is how earlier processes of a run began to end it.
type Ending struct {
	// Command ends the run, nil after a failure. Cause is why the run ends.
	Command *event.Command
	Cause   error
	// RollingBack is set if the rollback has started.
	RollingBack bool
}

// Ending returns how an earlier process began to end the run, nil if none did.
func (k Kept) Ending() *Ending {
	s := k.Steering
	if s == nil || s.Ending == nil && s.Rollback == nil && s.Failure == "" {
		return nil
	}
	by, cause := s.Ending, cmp.Or(s.Failure, "an earlier pod of this Job ended the run")
	if s.Rollback != nil {
		by, cause = cmp.Or(by, s.Rollback.By), s.Rollback.Cause
	}
	e := &Ending{Cause: errors.New(cause), RollingBack: s.Rollback != nil}
	if by != nil {
		c := by.Command()
		e.Command = &c
	}
	return e
}

// state is the content of a Journal.
type state struct {
	Version int `json:"version"`
	// Writer is the process that writes the journal. A later one replaces it.
	Writer string `json:"writer"`
	// Began is when the first process opened the journal.
	Began   time.Time       `json:"began,omitzero"`
	Entries map[string]Kept `json:"entries,omitempty"`
}

const (
	version = 1
	// MaxSize is the maximum size of an encoded journal in bytes. A Secret may have 1 MiB.
	MaxSize = 900 << 10
	// maxUnpacked limits what decode reads, in bytes.
	maxUnpacked = 64 << 20
)

// TooLargeError is the error of an entry that does not fit.
type TooLargeError struct{ Size int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a run in the cluster can keep %d KiB for the pod that may replace its own, and this needs %d KiB compressed: "+
		"abort the run, then upgrade with these values", MaxSize>>10, (e.Size+1023)>>10)
}

func encode(s state) ([]byte, error) {
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if err := errors.Join(json.NewEncoder(z).Encode(s), z.Close()); err != nil {
		return nil, fmt.Errorf("encode what the run keeps: %w", err)
	}
	if buf.Len() > MaxSize {
		return nil, &TooLargeError{buf.Len()}
	}
	return buf.Bytes(), nil
}

func decode(data []byte) (s state, err error) {
	if len(data) == 0 {
		return state{Version: version}, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(z, maxUnpacked)).Decode(&s)
	}
	if err == nil && s.Version != version {
		err = fmt.Errorf("version %d is unknown", s.Version)
	}
	if err != nil {
		return s, fmt.Errorf("read what the run has kept: %w", err)
	}
	return s, nil
}

// Store stores a journal.
type Store interface {
	// Load returns the content, empty at first.
	Load(context.Context) ([]byte, error)
	// Save replaces the content, unless it has changed since the last Load or Save of this Store; then the error is or
	// wraps ErrChanged.
	Save(context.Context, []byte) error
}

// ErrChanged is the error of a Store whose content somebody else has changed.
var ErrChanged = errors.New("it has changed")

// ErrReplaced is the error of a process that another one has replaced.
var ErrReplaced = errors.New("another pod of this Job has taken over the run")

// Journal is what a run keeps. It is safe for concurrent use.
type Journal struct {
	store  Store
	before map[string]Kept // what earlier pods have kept
	err    error           // see Err
	lost   error           // see Lost

	mu    sync.Mutex // guards the field below, and serializes writes
	state state
}

// Open reads a journal and makes the given process its writer. If an earlier pod has begun the run, an error of the write is that of
// Err: the journal says what has been written so far, and this process must end the run.
func Open(ctx context.Context, store Store, writer string) (*Journal, error) {
	j := &Journal{store: store}
	for {
		data, err := store.Load(ctx)
		if err == nil {
			j.state, err = decode(data)
		}
		if err != nil {
			return nil, err
		}
		j.state.Writer, j.before = writer, j.state.Entries
		if j.state.Began.IsZero() {
			j.state.Began = time.Now()
		}
		if data, err = encode(j.state); err == nil {
			err = store.Save(ctx, data)
		}
		if err == nil {
			return j, nil
		}
		if errors.Is(err, ErrChanged) && ctx.Err() == nil {
			continue
		}
		if _, begun := j.Begun(); begun {
			j.err = err
			return j, nil
		}
		return nil, err
	}
}

// Lost returns the journal of a process that finds none although each Job has one: somebody has deleted it. cause is why it cannot be
// read. Whether an earlier pod has begun the run is unknown; see Begin.
func Lost(cause error) *Journal { return &Journal{store: gone{cause}, lost: cause} }

// IsLost reports whether the journal is lost.
func (j *Journal) IsLost() bool { return j != nil && j.lost != nil }

// Begin returns a lost journal for a run that an earlier pod has begun, as its releases show: starts is what is known of them, by ID.
// The run cannot continue, see Err.
func (j *Journal) Begin(starts map[string]Start) *Journal {
	begun := &Journal{store: j.store, before: map[string]Kept{}}
	begun.err = fmt.Errorf("what this run has kept for its next pod is lost, such as accepted edits, so it cannot continue: %w", j.lost)
	for id, start := range starts {
		begun.before[id] = Kept{Start: &start}
	}
	return begun
}

// gone is the Store of a lost journal.
type gone struct{ error }

func (g gone) Load(context.Context) ([]byte, error) { return nil, g.error }
func (g gone) Save(context.Context, []byte) error   { return g.error }

// Err returns why this process could not become the writer, nil if it is.
func (j *Journal) Err() error {
	if j == nil {
		return nil
	}
	return j.err
}

// Begun returns when the first pod began the run, and whether that was an earlier one.
func (j *Journal) Begun() (at time.Time, earlier bool) {
	if j == nil {
		return time.Time{}, false
	}
	for _, kept := range j.before {
		earlier = earlier || kept.Start != nil
	}
	return j.state.Began, earlier
}

// Entry returns the entry with an ID: that of a release in a stack, or "" for the run itself. The entry of a nil Journal
// is nil.
func (j *Journal) Entry(id string) *Entry {
	if j == nil {
		return nil
	}
	return &Entry{journal: j, id: id, before: j.before[id].Continue()}
}

// Entry is one entry of a Journal. A nil Entry keeps nothing.
type Entry struct {
	journal *Journal
	id      string
	before  Kept
}

// IsLost returns Journal.IsLost.
func (e *Entry) IsLost() bool { return e != nil && e.journal.IsLost() }

// Begin returns Journal.Begin for a run of one release.
func (e *Entry) Begin(start Start) *Entry {
	return e.journal.Begin(map[string]Start{e.id: start}).Entry(e.id)
}

// Err returns Journal.Err.
func (e *Entry) Err() error {
	if e == nil {
		return nil
	}
	return e.journal.Err()
}

// Before returns what earlier pods have kept.
func (e *Entry) Before() Kept {
	if e == nil {
		return Kept{}
	}
	return e.before
}

// Fits returns an error if the entry would not fit after a change.
func (e *Entry) Fits(change func(*Kept)) error {
	if e == nil {
		return nil
	}
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	_, err := encode(e.journal.with(e.changing(change)))
	return err
}

// keepTimeout limits one write. The run waits for it.
const keepTimeout = 20 * time.Second

// SteeringKeeper returns the run.Options.Keep of an entry, nil for a nil Entry. change, if set, changes the entry with it.
func (e *Entry) SteeringKeeper(change func(*Kept, run.Steering)) func(run.Steering) error {
	if e == nil {
		return nil
	}
	return func(s run.Steering) error {
		return e.Keep(context.Background(), func(k *Kept) {
			if k.Steering = &s; change != nil {
				change(k, s)
			}
		})
	}
}

// Keep changes the entry and writes it.
func (e *Entry) Keep(ctx context.Context, change func(*Kept)) error {
	if e == nil {
		return nil
	}
	return e.journal.Keep(ctx, e.changing(change))
}

// changing returns the change of the entry as one of all entries.
func (e *Entry) changing(change func(*Kept)) func(map[string]Kept) {
	return func(entries map[string]Kept) {
		kept := entries[e.id]
		change(&kept)
		entries[e.id] = kept
	}
}

// Keep changes entries, by ID, and writes them together.
func (j *Journal) Keep(ctx context.Context, change func(map[string]Kept)) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	j.mu.Lock()
	defer j.mu.Unlock()
	next := j.with(change)
	data, err := encode(next)
	if err != nil {
		return err
	}
	for {
		err := j.store.Save(ctx, data)
		if err == nil {
			j.state = next
			return nil
		}
		if !errors.Is(err, ErrChanged) || ctx.Err() != nil {
			return err
		}
		if err := j.checkWriter(ctx); err != nil {
			return err
		}
	}
}

// checkWriter returns ErrReplaced if another process writes the journal. Otherwise an own write arrived although its
// response was lost, or somebody changed the Secret in another way.
func (j *Journal) checkWriter(ctx context.Context) error {
	data, err := j.store.Load(ctx)
	if err != nil {
		return err
	}
	now, err := decode(data)
	if err == nil && now.Writer != j.state.Writer {
		err = ErrReplaced
	}
	return err
}

// with returns the state after a change of entries. The caller holds the mutex.
func (j *Journal) with(change func(map[string]Kept)) state {
	next := j.state
	next.Entries = maps.Clone(next.Entries)
	if next.Entries == nil {
		next.Entries = map[string]Kept{}
	}
	change(next.Entries)
	return next
}
