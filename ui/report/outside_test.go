package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestLogOfObjectsOutsideTheRelease: the log says for which object outside the release a group waits, why it is not ready, and
// when it is; the plan and dag name it (R22d).
func TestLogOfObjectsOutsideTheRelease(t *testing.T) {
	tls, ca := plan.Object{Kind: "Secret", Namespace: "n", Name: "tls"}, plan.Object{Group: "cert-manager.io", Kind: "Certificate", Namespace: "infra", Name: "ca"}
	web := plan.Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "web"}
	groups := []*plan.Group{{ID: "r:web", Name: "web", Objects: []plan.Object{web}, WaitFor: []plan.Object{ca, tls}}}
	start := time.Unix(1e9, 0)
	outside := func(kind event.Kind, o plan.Object, s event.Status, message string) event.Event {
		return event.Event{Kind: kind, Phase: "apply", Group: "r:web", Object: &o, Outside: true, Status: s, Message: message}
	}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "install", Release: "r", Namespace: "n", ReadinessTimeout: time.Minute}},
		{Kind: event.KindPlan, Phases: []event.Phase{apply(groups)}},
		outside(event.KindObject, ca, event.InProgress, ""),
		outside(event.KindObject, tls, event.InProgress, ""),
		outside(event.KindObject, ca, event.InProgress, "Issuing certificate"),
		outside(event.KindObject, tls, event.InProgress, "not in the cluster"),
		outside(event.KindObject, ca, event.InProgress, "Issued soon"),
		outside(event.KindDiagnosis, tls, event.InProgress, "not in the cluster"),
		outside(event.KindWaiting, tls, event.InProgress, ""),
		outside(event.KindObject, ca, event.Ready, ""),
		{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: event.Failed, Object: &tls, Outside: true, Limit: event.LimitObject,
			Cause: "not in the cluster", Timeout: &event.Timeout{After: time.Minute, Flag: "--readiness-timeout"}},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: event.Waiting},
		outside(event.KindObject, tls, event.Ready, ""),
		{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: event.Running},
		{Kind: event.KindGroup, Phase: "apply", Group: "r:web", Status: event.Ready},
	}
	events[8].Wait = &event.Wait{State: "not in the cluster", For: 30 * time.Second}
	var s event.State
	for n := range events {
		events[n].Time = start.Add(time.Duration(n) * time.Second)
		s.Apply(events[n])
		g := s.Find("apply", "r:web")
		switch n {
		case 5:
			if left, limited := s.TimeLeft(g, g.Find(tls), events[n].Time); !limited || left != 58*time.Second || len(g.Missing()) != 2 || s.Next() != nil {
				t.Errorf("%s left, %v missing, next %v", left, g.Missing(), s.Next())
			}
		case 12:
			if len(g.Missing()) != 0 || s.Next() != g {
				t.Errorf("%v missing, next %v", g.Missing(), s.Next())
			}
		}
	}
	if n := s.Count().Total; n != 1 {
		t.Errorf("%d objects", n)
	}
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain}))
	at := 0
	for _, want := range []string{
		"waits for Certificate.cert-manager.io/infra/ca, Secret/n/tls\n",
		"r:web waits for Certificate.cert-manager.io/infra/ca: Issuing certificate\n",
		"r:web waits for Secret/tls: not in the cluster\n",
		"r:web waits for Secret/tls: not in the cluster (30s so far)\n",
		"Certificate.cert-manager.io/infra/ca is ready: r:web waited for it\n",
		"r:web failed", "Secret/tls: not in the cluster; gave up after 1m (--readiness-timeout)\n",
		"r:web started", "r:web ready",
	} {
		i := strings.Index(out.String()[at:], want)
		if i < 0 {
			t.Fatalf("no %q after %q in\n%s", want, out.String()[:at], out.String())
		}
		at += i + len(want)
	}
	if strings.Contains(out.String(), "Issued soon") || strings.Count(out.String(), "waits for Secret/tls: not in the cluster\n") != 1 {
		t.Errorf("each change of a status is a line:\n%s", out.String())
	}
	if text := dagText("r", &plan.Plan{Groups: groups}, plain); !strings.Contains(text, "waits for Certificate.cert-manager.io/infra/ca, Secret/n/tls\n") {
		t.Error(text)
	}
}
