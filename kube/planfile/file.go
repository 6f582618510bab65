// Package planfile is the file of a saved plan: what was approved, as digests, and how another plan differs from it. It reads no
// cluster. Its central types are File, Release and Planned.
package planfile

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/engine/text"
)

// Version is the version of files that this program writes and reads.
const Version = 1

// File is a saved plan of a release, or of all releases of a stack.
type File struct {
	// By is the user who made the plan, as the API server knows them.
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	Stack string    `json:"stack,omitempty"`
	// Salt is random: guesses at a secret value have to start again for each file.
	Salt     []byte    `json:"salt"`
	Releases []Release `json:"releases"`
	// Hooks are the programs that the run of a stack starts.
	Hooks []Hook `json:"hooks,omitempty"`
}

// Hook is a program that the run of a stack starts, without secret values.
type Hook struct {
	plan.PlannedStep
	// Container is a slow digest of what its Job has besides the command line: variables, Secrets, service account and annotations. It is
	// "" for a program on this machine.
	Container string `json:"containerDigest,omitempty"`
}

// Release is the plan of a release.
type Release struct {
	InStack
	Operation event.Operation `json:"operation"`
	Cluster   Cluster         `json:"cluster"`
	// Last is the release's latest revision, 0 if there is none.
	Last int `json:"last"`
	// Chart and Values are slow digests of the chart's files and of the user's values.
	Chart  string `json:"chartDigest"`
	Values string `json:"valuesDigest"`
	// Options are the options that decide what is written, by name.
	Options map[string]string `json:"options"`
	Images  []string          `json:"images"`
	Phases  []event.Phase     `json:"phases"`
	// Objects are all changes, in the order of the plan.
	Objects  []Object       `json:"objects"`
	Warnings []plan.Warning `json:"warnings"`
	// Unstable are the templates that use random values or the time, with these functions.
	Unstable map[string][]string `json:"-"`
}

// Cluster is what identifies a cluster.
type Cluster struct {
	// UID is that of namespace kube-system, Namespace that of the release's namespace; "" if the user may not read it or it does
	// not exist.
	UID       string `json:"uid,omitempty"`
	Namespace string `json:"namespaceUID,omitempty"`
	Address   string `json:"address"` // a digest of the server's address
}

// Same reports whether two are one cluster: by the best that both know.
func (c Cluster) Same(other Cluster) bool {
	switch {
	case c.UID != "" && other.UID != "":
		return c.UID == other.UID
	case c.Namespace != "" && other.Namespace != "":
		return c.Namespace == other.Namespace
	}
	return c.Address == other.Address
}

// InStack is what the plan of a stack has of a release.
type InStack struct {
	// Scope is the release's ID, "" without a stack.
	Scope string   `json:"scope,omitempty"`
	Needs []string `json:"needs,omitempty"`
	// Unchanged releases are skipped (S4), pruned ones removed because the file no longer defines them.
	Unchanged bool `json:"unchanged,omitempty"`
	Pruned    bool `json:"pruned,omitempty"`
	// ContinueOnError lets releases that do not need this one start after it has failed (S5).
	ContinueOnError bool `json:"continueOnError,omitempty"`
}

// Object is what the operation does to an object. Its text hides secret values.
type Object struct {
	inspect.Change
	Template string `json:"template,omitempty"`
	// Sent has the digests of the fields that are sent, by path; Changed those of the values before and after of the fields
	// that change in the cluster.
	Sent    map[string]string `json:"sent,omitempty"`
	Changed map[string]string `json:"changed,omitempty"`
	// SecretFields are the paths of the fields that are or may be secret, SecretSent and SecretChanged slow digests of all of them
	// together.
	SecretFields  []string `json:"secretFields,omitempty"`
	SecretSent    string   `json:"secretSent,omitempty"`
	SecretChanged string   `json:"secretChanged,omitempty"`
	// Again means that the run itself has applied the object before: it has failed and is replaced (R50).
	Again bool `json:"-"`
}

// Saved is a saved plan of a release.
type Saved struct {
	Release
	Salt []byte
}

// Object returns the approved change to the object of another one, nil if it is not in the plan.
func (a *Saved) Object(now inspect.Change) *Object {
	if a == nil {
		return nil
	}
	same := func(was Object) bool {
		return was.Phase == now.Phase && was.Group == now.Group && was.Object == now.Object
	}
	if i := slices.IndexFunc(a.Objects, same); i >= 0 {
		return &a.Objects[i]
	}
	return nil
}

// NewSalt returns the salt of a new file.
func NewSalt() []byte {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // it never fails
	return salt
}

// envelope is the outermost object of a file. Digest is over the text of Plan without its white space.
type envelope struct {
	Version int             `json:"version"`
	Digest  string          `json:"digest"`
	Plan    json.RawMessage `json:"plan"`
}

// Encode returns the text of the file.
func (f *File) Encode() ([]byte, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	out, err := json.MarshalIndent(envelope{Version, integrity(text), text}, "", " ")
	return append(out, '\n'), err
}

// Read reads the text of a file. It refuses other versions, and a text that was changed by hand: the digest detects accidents,
// it is no signature.
func Read(saved []byte) (*File, error) {
	var e envelope
	if err := json.Unmarshal(saved, &e); err != nil || e.Version == 0 || e.Plan == nil {
		return nil, errors.New("not a plan that lockstep has saved: save one with: " + text.Program + " plan … --out FILE")
	}
	if e.Version != Version {
		return nil, fmt.Errorf("the plan has version %d, and this lockstep reads version %d: save a new plan, or use the lockstep that saved it", e.Version, Version)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, e.Plan); err != nil {
		return nil, err
	}
	if integrity(compact.Bytes()) != e.Digest {
		return nil, fmt.Errorf("the plan was changed after lockstep saved it: its digest does not match; save a new plan")
	}
	f := &File{}
	if err := json.Unmarshal(e.Plan, f); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	return f, nil
}

func integrity(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Release returns the approved plan of a release by its ID in the stack, "" without a stack; nil if the file has none.
func (f *File) Release(scope string) *Saved {
	for _, r := range f.Releases {
		if r.Scope == scope {
			return &Saved{r, f.Salt}
		}
	}
	return nil
}
