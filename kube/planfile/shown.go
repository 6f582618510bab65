package planfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"lockstep/engine/inspect"
)

// Shown is what an operation was about to change when somebody approved it (R42a). Its objects have only the digests of the fields that
// change, with their values before and after.
type Shown struct {
	Salt    []byte   `json:"salt"`
	Objects []Object `json:"objects"`
}

// Object returns what was shown of the object of a change, nil for nothing.
func (s *Shown) Object(c inspect.Change) *Object {
	if s == nil {
		return nil
	}
	return (&Saved{Release: Release{Objects: s.Objects}}).Object(c)
}

// Digest returns a digest of what the given groups overwrite or delete, together with that of their plan.
func (s *Shown) Digest(plan string, of func(group string) bool) (string, error) {
	var all []Object
	for _, o := range s.Objects {
		if of(o.Group) && o.Action != inspect.Create {
			all = append(all, o)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(plan), text...))
	return hex.EncodeToString(sum[:]), nil
}

// Covers reports whether somebody was shown all that the groups are about to overwrite or delete now. Less than what was shown is
// covered: the run has applied the rest. now must have the same salt.
func (s *Shown) Covers(now *Shown, of func(group string) bool) bool {
	if s == nil || now == nil {
		return false
	}
	for _, o := range now.Objects {
		if !of(o.Group) || o.Again || o.Action == inspect.Create {
			continue
		}
		was := s.Object(o.Change)
		if was == nil || was.Action != o.Action || o.SecretChanged != "" && o.SecretChanged != was.SecretChanged {
			return false
		}
		for path, digest := range o.Changed {
			if was.Changed[path] != digest {
				return false
			}
		}
	}
	return true
}
