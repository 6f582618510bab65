package run

import (
	"slices"

	"lockstep/engine/event"
)

// queueDueWaves queues the requests of all waves that are due in a cohort.
func (s *stage) queueDueWaves(c *cohort) {
	for _, g := range c.due() {
		a := &g.attempt
		w := g.def.Waves[a.wave]
		for _, o := range g.objects[a.queued : a.queued+w.Count] {
			s.queue = append(s.queue, request{s, g, o, a.number})
		}
		a.pending = w.Count
		a.queued += w.Count
		a.wave++
		g.offerWave()
	}
}

// sendQueued sends queued requests while there are free slots. Each object has at most one request
// in flight, so a retry waits for the request of the previous attempt (R44).
func (s *stage) sendQueued() {
	for i := 0; i < len(s.queue) && s.inFlight < s.m.opts.MaxRequests; {
		r := s.queue[i]
		stale := r.attempt != r.group.attempt.number || r.group.status != event.Running
		if r.object.inFlight && !stale {
			i++
			continue
		}
		if i == 0 {
			s.queue = s.queue[1:]
		} else {
			s.queue = slices.Delete(s.queue, i, i+1)
		}
		if !stale {
			s.startRequest(r)
		}
	}
}

func (s *stage) startRequest(r request) {
	status := event.Applying
	if s.removes() {
		status = event.Deleting
	}
	s.inFlight++
	r.object.inFlight = true
	s.setObject(r.group, r.object, status, "", "")
	s.m.emit(sendRequest{r})
}
