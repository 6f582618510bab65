package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"lockstep/engine/event"
	"lockstep/kube/connect"
	"lockstep/kube/helmfile"
	"lockstep/kube/planfile"
)

// A run with hooks continues the last one of the same file, by its record: if that was killed, its hooks that succeeded do not run
// again; and if it deployed a release but not the hooks after it, they run although the release is unchanged now.

// findEarlier finds the last run of the same file, environment, clusters and default namespaces that did not leave out the hooks. One
// that leaves them out must know which points of no return they have passed (R33a).
func (s *Stack) findEarlier(ctx context.Context) error {
	if len(s.steps) == 0 || s.opts.Earlier == nil || s.opts.Common.PlanOnly {
		return nil
	}
	clients, signs, err := s.signs(ctx)
	if err != nil {
		return err
	}
	ids, _ := connect.ClusterIDs(signs...)
	var namespaces []string // of the same releases by name, -n makes others
	for _, c := range clients {
		namespaces = append(namespaces, c.Namespace())
	}
	slices.Sort(namespaces)
	text, err := json.Marshal([]any{s.info.Name, s.info.Release, s.info.File, s.opts.File.Environment, connect.ClusterNames(ids), slices.Compact(namespaces)})
	if err != nil {
		return err
	}
	digest := sha256.Sum256(text)
	identity := hex.EncodeToString(digest[:16])
	if s.earlier = s.opts.Earlier(identity); s.opts.Hooks != SkipHooks {
		s.info.Identity = identity
	}
	return nil
}

// doneEarlier reports whether a step succeeded in a run that was killed, for the same releases.
func (s *Stack) doneEarlier(st *step) bool {
	if s.earlier == nil || !s.earlier.Ended.IsZero() || st.hook.Rerun || st.fact.Digest == "" {
		return false
	}
	g := s.earlier.Find(st.phase, st.id)
	if g == nil || g.Step == nil || g.Status != event.Ready {
		return false
	}
	before, now := *g.Step, s.Mask().Step(st.fact)
	return before.Line() == now.Line() && before.Folder == now.Folder && before.Digest == now.Digest
}

// leftOver reports whether the last run has deployed or removed the release of a step, and then ended before the step, or with it.
func (s *Stack) leftOver(st *step) bool {
	if after := st.at.Event == helmfile.Postsync || st.at.Event == helmfile.Postuninstall; s.earlier == nil || !after {
		return false
	}
	release, g := s.earlier.Find(st.phase, st.member.id), s.earlier.Find(st.phase, st.id)
	done := release != nil && (release.Status == event.Ready || release.Status == event.Gone)
	return done && g != nil && g.Status != event.Ready
}

// addDigests adds to the planned steps what stands for the releases that they are about.
func (s *Stack) addDigests() {
	all, texts := []string{}, map[*member]string{}
	for _, m := range s.members {
		text := m.id + "\n"
		if op := s.plannedOperation(m); op != nil && op.Preview() != nil && !m.remove {
			text += op.Preview().Manifest
			for _, h := range op.Preview().Hooks {
				text += "\n" + h.Manifest
			}
		}
		all, texts[m] = append(all, text), text
	}
	slices.Sort(all)
	whole, err := json.Marshal(all)
	if err != nil {
		return // then nothing counts as done
	}
	texts[nil] = string(whole)
	type key struct {
		salt string
		of   *member
	}
	slow := map[key]string{}
	digest := func(salt string, m *member) string {
		k := key{salt, m}
		if slow[k] == "" {
			slow[k] = planfile.Slow([]byte(salt), []byte(texts[m]))
		}
		return slow[k]
	}
	for _, st := range s.steps {
		if !s.planned(st) {
			continue
		}
		if s.info.Identity != "" {
			st.fact.Digest = digest(s.info.Identity, st.member)
		}
		if st.hook.Image != nil { // the same on all machines
			st.jobDigest = digest(s.info.Release, st.member)
		}
	}
}
