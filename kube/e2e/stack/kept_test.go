package stack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// TestPauseOfAllReleasesOrNone (S6, S13): a pause of the stack that cannot be kept pauses none of its releases. One that is kept
// pauses all of them, even if a release cannot keep its own. A single write keeps that they resume.
func TestPauseOfAllReleasesOrNone(t *testing.T) {
	t.Parallel()
	for _, refused := range []int{1, 2} { // the writes that keep so many pauses: that of the stack, those of the releases
		t.Run(fmt.Sprint(refused), func(t *testing.T) {
			t.Parallel()
			b := newStackRig(t)
			slow := rig.DirOf(t, rig.Deployment("{{ .Release.Name }}", nil, "1h"))
			var writes []int // the pauses that each keeps
			var allowed atomic.Bool
			store := &memory{refuses: func(text string) error {
				paused := strings.Count(text, `"paused":true`)
				if paused == refused && !allowed.Load() {
					return errors.New("connection refused")
				}
				writes = append(writes, paused)
				return nil
			}}
			j := rig.OpenJournal(t, store)
			s, err := b.prepare(false, func(o *kube.StackOptions) {
				o.Journal, o.Common.Job, o.Common.ReadinessTimeout = j, b.Namespace+"/job", time.Minute
			}, release{Name: "a", Dir: slow}, release{Name: "b", Dir: slow})
			guard := time.AfterFunc(40*time.Second, func() { s.Command(event.Command{Name: event.Abort}) })
			defer guard.Stop()
			log := map[string]int{} // commands sent, answers, and states of releases
			state, events := b.run(s, err, func(e event.Event) {
				send := func(name event.CommandName, id string) {
					if log[id]++; log[id] == 1 {
						s.Command(event.Command{Name: name, ID: id})
					}
				}
				switch {
				case e.Kind == event.KindGroup && e.Scope != "" && e.Status == event.Running:
					log["started"]++
				case e.Kind == event.KindCommand:
					log[e.Answers+" "+string(e.Status)]++
				case e.Kind == event.KindRun && e.Scope != "":
					log[string(e.Status)]++
				}
				switch {
				case log["started"] == 2 && log["first"] == 0:
					send(event.Pause, "first")
				case log["first refused"] > 0 && log["second"] == 0:
					if log["paused"] > 0 {
						t.Error("a refused pause has paused a release")
					}
					allowed.Store(true)
					send(event.Pause, "second")
				case log["paused"] == 2 && log["resume"] == 0:
					send(event.Resume, "resume")
				case log["running"] == 2:
					send(event.Abort, "abort")
				}
			})
			want := map[int][]int{1: {0, 1, 2, 3, 0}, 2: {0, 1, 0}}[refused]
			if writes = slices.Compact(writes); log["abort"] == 0 || !slices.Equal(writes, want) {
				t.Errorf("the journal was written with %v pauses, want %v; %v, %s", writes, want, log, phrase.Reason(state))
			}
			if warned := slices.ContainsFunc(events, func(e event.Event) bool { return e.Kind == event.KindWarning && e.Rule == "S13" }); warned != (refused == 2) {
				t.Errorf("warned %t", warned)
			}
		})
	}
}

// TestBreakpointOfAllReleasesOrNone (S6, S13): a breakpoint on groups of several releases is refused for all of them if the first
// cannot be kept. Once that is accepted, the others are set even if they cannot be kept.
func TestBreakpointOfAllReleasesOrNone(t *testing.T) {
	t.Parallel()
	b := newStackRig(t)
	var allowed atomic.Bool
	store := &memory{refuses: func(text string) error {
		if kept := strings.Count(text, `"breakpoints":`); kept == 1 && !allowed.Load() || kept == 2 {
			return errors.New("connection refused")
		}
		return nil
	}}
	j := rig.OpenJournal(t, store)
	s, err := b.prepare(false, func(o *kube.StackOptions) {
		o.Journal, o.Common.Job, o.Common.Step = j, b.Namespace+"/job", true
	}, release{Name: "a", Dir: chart(t, "a")}, release{Name: "b", Dir: chart(t, "b")})
	guard := time.AfterFunc(40*time.Second, func() { s.Command(event.Command{Name: event.Abort}) })
	defer guard.Stop()
	var log []string
	b.run(s, err, func(e event.Event) {
		switch {
		case e.Kind == event.KindRun && e.Status == event.Paused:
			s.Command(event.Command{Name: event.Break, Group: "app", ID: "first"})
		case e.Kind == event.KindCommand && e.Answers != event.InternalID:
			log = append(log, e.Answers+" "+string(e.Status))
			if e.Answers == "first" {
				allowed.Store(true)
				s.Command(event.Command{Name: event.Break, Group: "app", ID: "second"})
			}
		case e.Kind == event.KindBreakpoint:
			if log = append(log, e.Group); e.Group == "b:app" {
				s.Command(event.Command{Name: event.Abort, ID: "abort"})
			}
		case e.Kind == event.KindWarning && e.Rule == "S13":
			log = append(log, "warning")
		}
	})
	if want := []string{"first refused", "second accepted", "a:app", "warning", "b:app", "abort accepted"}; !slices.Equal(log, want) {
		t.Errorf("%q, want %q", log, want)
	}
}
