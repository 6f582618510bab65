package cli

import (
	"slices"
	"testing"

	helmcli "helm.sh/helm/v4/pkg/cli"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// ended is the picture of an operation that failed in one group, rolled back
// by another where back is its status, and left a release so.
func ended(name string, previous int, group, back event.Status, release string) *event.State {
	g := []*plan.Group{{ID: "c:g", Name: "g"}}
	events := []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: name, Release: "s", Namespace: "n", PreviousRevision: previous, ToRevision: 2}},
		{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: g}}},
	}
	if group != event.Skipped {
		events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running})
	}
	events = append(events, event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: group})
	if back != "" {
		events = append(events,
			event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: g}}},
			event.Event{Kind: event.KindGroup, Phase: "rollback/remove", Group: "c:g", Status: back})
	}
	exit := exitFailed
	if group == event.Skipped {
		exit = exitNothing
	}
	events = append(events, event.Event{Kind: event.KindOperation, Status: event.Failed, Release: release, Exit: &exit})
	var feed event.Feed
	for _, e := range events {
		feed.Publish(e)
	}
	var s event.State
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
		again   = "lockstep upgrade s ./c" + where + "   # once that is mended, with the same values"
		anew    = "lockstep install s ./c" + where + "   # once that is mended, with the same values"
		goBack  = "lockstep rollback s 3" + where
		goAway  = "lockstep uninstall s" + where
		back    = goBack + "   # or go back"
		away    = goAway + "   # or take away what is there"
		look    = "lockstep recover s" + where + "   # or see what is where"
		mended  = "   # once that is mended"
		history = "lockstep history s" + where
		status  = "lockstep status s" + where
	)
	d := &deployFlags{}
	d.values.Values = []string{"password=secret"}
	pinned := &deployFlags{}
	pinned.chart.RepoURL, pinned.chart.Version = "https://charts.example", "1.2.3"
	deploy := func(s *event.State) []string { return a.afterDeploy(s, []string{s.Operation.Name}, "./c", false, d) }
	for _, c := range []struct {
		what string
		got  []string
		want []string
	}{
		{"a failed install", deploy(ended("install", 0, event.Failed, "", "failed")), []string{anew, away}},
		{"an install that wrote nothing", deploy(ended("install", 0, event.Skipped, "", "")), nil},
		{"an install that made no release", deploy(ended("install", 0, event.Failed, "", "none")), []string{anew}},
		{"an install that may be pending", deploy(ended("install", 0, event.Failed, "", "")), []string{anew, look}},
		{"an install that was rolled back", deploy(ended("install", 0, event.Failed, event.Gone, "none")), []string{anew}},
		{"an install whose rollback failed", deploy(ended("install", 0, event.Failed, event.Failed, "failed")), []string{anew, away}},
		{"an install in a sandbox", a.afterDeploy(ended("install", 0, event.Failed, "", "failed"), []string{"install"}, "./c", true, d), nil},
		{"a failed install in an inferred order", a.afterDeploy(ended("install", 0, event.Failed, "", "none"), []string{"install"}, "shop", false, &deployFlags{order: choice{value: "inferred"}}),
			[]string{"lockstep install s shop --order=inferred -n n --kube-context 'my cluster'   # once that is mended"}},
		{"a failed install of one version", a.afterDeploy(ended("install", 0, event.Failed, "", "none"), []string{"install"}, "shop", false, pinned),
			[]string{"lockstep install s shop --repo https://charts.example --version 1.2.3" + where + "   # once that is mended"}},
		{"an upgrade that was rolled back", deploy(ended("upgrade", 3, event.Failed, event.Ready, "deployed")), []string{again}},
		{"a failed upgrade", deploy(ended("upgrade", 3, event.Failed, "", "failed")), []string{again, back}},
		{"a failed upgrade of what may serve", deploy(ended("upgrade", 0, event.Failed, "", "failed")), []string{again}},
		{"an upgrade that may be pending", deploy(ended("upgrade", 3, event.Failed, "", "")), []string{again, look}},
		{"a failed rollback", a.afterRollback(ended("rollback", 0, event.Failed, "", "failed")), []string{"lockstep rollback s 2" + where + mended, history}},
		{"a failed uninstallation", a.afterUninstall(ended("uninstall", 0, event.Failed, "", "failed")), []string{goAway + mended, status}},
		{"an uninstallation that failed at its end", a.afterUninstall(ended("uninstall", 0, event.Failed, "", "none")), nil},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("after %s: %q, want %q", c.what, c.got, c.want)
		}
	}
}
