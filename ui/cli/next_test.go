package cli

import (
	"slices"
	"testing"

	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine"
)

// ended is the picture of an operation that failed in one group, rolled back
// by another where back is its status.
func ended(name string, previous int, group, back engine.Status) *engine.State {
	g := []*engine.Group{{ID: "c:g", Name: "g"}}
	events := []engine.Event{
		{Kind: engine.KindOperation, Status: engine.Running, Operation: &engine.Operation{Name: name, Release: "s", Namespace: "n", PreviousRevision: previous, ToRevision: 2}},
		{Kind: engine.KindPlan, Phases: []engine.Phase{{Name: "apply", Kind: engine.PhaseApply, Groups: g}}},
	}
	if group != engine.Skipped {
		events = append(events, engine.Event{Kind: engine.KindGroup, Phase: "apply", Group: "c:g", Status: engine.Running})
	}
	events = append(events, engine.Event{Kind: engine.KindGroup, Phase: "apply", Group: "c:g", Status: group})
	if back != "" {
		events = append(events,
			engine.Event{Kind: engine.KindPlan, Phases: []engine.Phase{{Name: "rollback/remove", Kind: engine.PhaseRemove, Groups: g}}},
			engine.Event{Kind: engine.KindGroup, Phase: "rollback/remove", Group: "c:g", Status: back})
	}
	events = append(events, engine.Event{Kind: engine.KindOperation, Status: engine.Failed})
	var feed engine.Feed
	for _, e := range events {
		feed.Publish(e)
	}
	var s engine.State
	for _, e := range feed.Events() {
		s.Apply(e)
	}
	return &s
}

func TestWhatToTypeNext(t *testing.T) {
	a := &app{settings: helmcli.New()}
	a.settings.KubeContext = "my cluster"
	const (
		where   = " -n n --kube-context 'my cluster'"
		again   = "lockstep upgrade --install s ./c" + where + "   # with the same values"
		goBack  = "lockstep rollback s 3" + where
		goAway  = "lockstep uninstall s" + where
		history = "lockstep history s" + where
	)
	d := &deployFlags{}
	d.values.Values = []string{"password=secret"}
	deploy := func(s *engine.State) []string { return a.afterDeploy(s, "./c", &runFlags{}, d) }
	for _, c := range []struct {
		what string
		got  []string
		want []string
	}{
		{"a failed install", deploy(ended("install", 0, engine.Failed, "")), []string{again, goAway}},
		{"an install that never began", deploy(ended("install", 0, engine.Skipped, "")), []string{again}},
		{"an install that was rolled back", deploy(ended("install", 0, engine.Failed, engine.Gone)), nil},
		{"an install whose rollback failed", deploy(ended("install", 0, engine.Failed, engine.Failed)), []string{again, goAway}},
		{"an install in a sandbox", a.afterDeploy(ended("install", 0, engine.Failed, ""), "./c", &runFlags{sandbox: true}, d), nil},
		{"a failed upgrade", deploy(ended("upgrade", 3, engine.Failed, "")), []string{goBack, again}},
		{"a failed rollback", a.afterRollback(ended("rollback", 0, engine.Failed, "")), []string{history, "lockstep rollback s 2" + where}},
		{"a failed uninstallation", a.afterUninstall(ended("uninstall", 0, engine.Failed, "")), []string{"lockstep status s" + where, goAway}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("after %s: %q, want %q", c.what, c.got, c.want)
		}
	}
}
