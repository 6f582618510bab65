package board

import (
	"fmt"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/plan"
	"lockstep/ui/board/screen"
)

// large is a run with total objects in 300 groups in 30 layers; the groups of the middle layer are
// running.
func large(total int) []event.Event { return layered(total, 30, 10) }

func layered(total, layers, perLayer int) []event.Event {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := event.Phase{Name: "apply", Kind: event.PhaseApply}
	var progress []event.Event
	n := 0
	for l := range layers {
		for i := range perLayer {
			g := &plan.Group{ID: fmt.Sprintf("big/chart-%02d:group-%02d", l, i), Layer: l, After: []string{}}
			if l > 0 {
				g.After = append(g.After, p.Groups[(l-1)*perLayer+i].ID)
			}
			if l > 0 && perLayer > 1 {
				g.After = append(g.After, p.Groups[(l-1)*perLayer+(i+3)%perLayer].ID)
			}
			if l > 4 && i%4 == 0 {
				g.After = append(g.After, p.Groups[(l-4)*perLayer+i].ID)
			}
			for range total / layers / perLayer {
				g.Objects = append(g.Objects, plan.Object{Group: "apps", Kind: "Deployment", Namespace: "big", Name: fmt.Sprintf("workload-%05d", n)})
				n++
			}
			for n < total && l == layers-1 && i == perLayer-1 {
				g.Objects = append(g.Objects, plan.Object{Kind: "ConfigMap", Namespace: "big", Name: fmt.Sprintf("rest-%05d", n)})
				n++
			}
			p.Groups = append(p.Groups, g)
			progress = append(progress, groupEvents(p.Name, g, l, layers/2, at)...)
		}
	}
	op := &event.Operation{Name: "install", Release: "big", Namespace: "big", Context: "bench", Revision: 1, Timeout: time.Hour}
	return append([]event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: op, Time: at},
		{Kind: event.KindPlan, Phases: []event.Phase{p}, Time: at},
	}, progress...)
}

// groupEvents returns the events of a group so far, while the layer now is running.
func groupEvents(phase string, g *plan.Group, layer, now int, at time.Time) []event.Event {
	if layer > now {
		return nil
	}
	out := []event.Event{{Kind: event.KindGroup, Phase: phase, Group: g.ID, Status: event.Running, Time: at}}
	for i, o := range g.Objects {
		e := event.Event{Kind: event.KindObject, Phase: phase, Group: g.ID, Object: &o, Status: event.Ready, Change: event.Created, Time: at}
		if layer == now && i%2 == 0 {
			e.Status, e.Message, e.Progress = event.InProgress, "1 of 3 available", event.Progress{Done: 1, Wanted: 3, Word: "available"}
		}
		out = append(out, e)
	}
	if layer < now {
		out = append(out, event.Event{Kind: event.KindGroup, Phase: phase, Group: g.ID, Status: event.Ready, Time: at.Add(time.Second)})
	}
	return out
}

func largeScreen(tb testing.TB, total, w, h int) *rig {
	s := newScreen(tb, w, h, nil)
	s.Update(batchMsg{events: large(total), more: true})
	return s
}

// BenchmarkFrame draws one frame of a large run, from the event to the text for the terminal.
func BenchmarkFrame(b *testing.B) {
	for _, total := range []int{1_000, 10_000, 100_000} {
		for _, size := range sizes {
			b.Run(fmt.Sprintf("%d/%dx%d", total, size[0], size[1]), func(b *testing.B) { drawFrames(b, largeScreen(b, total, size[0], size[1])) })
		}
	}
}

func drawFrames(b *testing.B, s *rig) {
	o := s.Group().Objects[0].Object
	e := event.Event{Kind: event.KindObject, Phase: "apply", Group: s.Group().ID, Object: &o, Status: event.InProgress, Time: s.State.Now}
	b.ReportAllocs()
	for b.Loop() {
		e.Message += "."
		if len(e.Message) > 20 {
			e.Message = ""
		}
		s.Update(batchMsg{events: []event.Event{e}, more: true})
		s.View()
	}
}

// BenchmarkFrameFiltered draws one frame while a filter is on, which matches all objects again.
func BenchmarkFrameFiltered(b *testing.B) {
	s := largeScreen(b, 10_000, 200, 50)
	s.press("/", "0", "0", "1", "enter")
	b.ReportAllocs()
	for b.Loop() {
		s.send(batchMsg{events: []event.Event{{Kind: event.KindWaiting, Time: s.State.Now}}, more: true})
	}
}

// BenchmarkMove moves the selection, which lays out the board again.
func BenchmarkMove(b *testing.B) {
	s := largeScreen(b, 10_000, 200, 50)
	b.ReportAllocs()
	for b.Loop() {
		s.press("tab")
	}
}

// BenchmarkBusy is a second of a run with 2,000 events, batched as the screen batches them.
func BenchmarkBusy(b *testing.B) {
	s := largeScreen(b, 10_000, 200, 50)
	perBatch := 2000 * int(screen.BatchEvery) / int(time.Second)
	var batch []event.Event
	for i := range perBatch {
		g := s.Graph.Nodes[150+i%10]
		o := g.Objects[i/10].Object
		batch = append(batch, event.Event{Kind: event.KindObject, Phase: g.Phase, Group: g.ID, Object: &o, Status: event.InProgress, Message: "0 of 1 available", Time: s.State.Now})
	}
	b.ReportAllocs()
	for b.Loop() {
		for range int(time.Second / screen.BatchEvery) {
			s.Update(batchMsg{events: batch, more: true})
			s.View()
		}
	}
}

// TestFrameScales counts the allocations of a frame. With ten times the layers or objects, a frame
// shows no more, so it must cost far less than ten times as much.
func TestFrameScales(t *testing.T) {
	frame := func(objects, layers int) float64 {
		s := newScreen(t, 200, 50, nil)
		s.Update(batchMsg{events: layered(objects, layers, 1), more: true})
		o := s.Group().Objects[0].Object
		e := event.Event{Kind: event.KindObject, Phase: "apply", Group: s.Group().ID, Object: &o, Status: event.InProgress, Time: s.State.Now}
		return testing.AllocsPerRun(3, func() {
			s.Update(batchMsg{events: []event.Event{e}, more: true})
			s.View()
		})
	}
	few := frame(600, 30)
	if layers, objects := frame(600, 300), frame(6_000, 30); max(layers, objects) > 3*few {
		t.Errorf("%.0f allocations with 30 layers and 600 objects, %.0f with 300 layers, %.0f with 6,000 objects", few, layers, objects)
	} else {
		t.Logf("%.0f, %.0f, %.0f allocations", few, layers, objects)
	}
}

// TestLargeRunFits draws a large run at all sizes; the benchmarks measure how fast that is.
func TestLargeRunFits(t *testing.T) {
	s := largeScreen(t, 10_000, 200, 50)
	for _, size := range sizes {
		s.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		within(t, s, "large run")
	}
}

// BenchmarkFrameOfLogs draws a frame with the maximum number of log lines, with and without a search.
func BenchmarkFrameOfLogs(b *testing.B) {
	for _, seek := range []bool{false, true} {
		b.Run(fmt.Sprintf("search=%t", seek), func(b *testing.B) {
			c := &answerer{}
			for n := range 5000 {
				c.logs = append(c.logs, inspect.LogLine{Source: event.Source{Pod: fmt.Sprint("pod-", n%5), Container: fmt.Sprint("c", n%2), Instance: 1}, Time: time.Unix(int64(n), 0), Text: fmt.Sprintf("%d GET /healthz 200 and so on and so forth, a line of a log of the usual length it is, %d", n, n)})
			}
			s := newScreen(b, 160, 45, recorded(b, "sandbox-held", 0), func(o *Options) { o.Inspector = c })
			s.press("f", "l")
			s.settle()
			if seek {
				s.press("/", "h", "e", "a", "enter")
			}
			b.ReportAllocs()
			for b.Loop() {
				s.stale = true
				s.View()
			}
		})
	}
}

// stackOf is a half-finished stack of releases in ten layers, each with 50 objects in 5 groups.
func stackOf(releases int) []event.Event {
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	whole := event.Phase{Name: "releases", Kind: event.PhaseApply}
	var inside, progress []event.Event
	for n := range releases {
		id, layer := fmt.Sprintf("data/release-%03d", n), n*10/releases
		g := &plan.Group{ID: id, Chart: id, Name: id, Layer: layer, After: []string{}, Objects: []plan.Object{{Group: "helm.sh", Kind: "Release", Namespace: "data", Name: id}}}
		if before := n - releases/10; before >= 0 {
			g.After = append(g.After, whole.Groups[before].ID)
		}
		whole.Groups = append(whole.Groups, g)
		progress = append(progress, groupEvents(whole.Name, g, layer, 5, at)...)
		p := event.Phase{Name: "apply", Kind: event.PhaseApply}
		for i := range 5 {
			g := &plan.Group{ID: fmt.Sprintf("chart:group-%d", i), Layer: i, After: []string{}}
			for o := range 10 {
				g.Objects = append(g.Objects, plan.Object{Group: "apps", Kind: "Deployment", Namespace: "data", Name: fmt.Sprintf("%s-%d-%d", id, i, o)})
			}
			p.Groups = append(p.Groups, g)
			for _, e := range groupEvents(p.Name, g, 5*layer+i, 27, at) {
				e.Scope = id
				progress = append(progress, e)
			}
		}
		inside = append(inside, event.Event{Kind: event.KindPlan, Scope: id, Phases: []event.Phase{p}, Time: at})
	}
	op := &event.Operation{Name: "up", Release: "bench", Context: "bench", Timeout: time.Hour}
	first := event.Event{Kind: event.KindOperation, Status: event.Running, Operation: op, Time: at}
	return slices.Concat([]event.Event{first}, inside, []event.Event{{Kind: event.KindPlan, Phases: []event.Phase{whole}, Time: at}}, progress)
}

// BenchmarkStack draws a stack of 200 releases: a frame after an event, and after a key.
func BenchmarkStack(b *testing.B) {
	s := newStack(b.Context(), Options{Source: idle{}, Release: func(string) (inspect.Cluster, []string) { return nil, nil }})
	s.Update(tea.WindowSizeMsg{Width: 200, Height: 50})
	s.Update(batchMsg{events: stackOf(200), more: true})
	o := s.State.Phases[0].Groups[100].Objects[0].Object
	e := event.Event{Kind: event.KindObject, Phase: "releases", Group: "data/release-100", Object: &o, Status: event.Applying, Time: s.State.Now}
	for name, msg := range map[string]func() tea.Msg{
		"event": func() tea.Msg { e.Message += "."; return batchMsg{events: []event.Event{e}, more: true} },
		"key":   func() tea.Msg { return keyPress("tab") },
	} {
		b.Run(name, func(b *testing.B) {
			e.Message = ""
			for b.Loop() {
				s.Update(msg())
				s.View()
			}
		})
	}
}
