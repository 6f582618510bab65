package inspector

import (
	"strings"
	"testing"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// TestShortWhy omits what the heading says already, and leaves other sentences alone.
func TestShortWhy(t *testing.T) {
	for why, want := range map[string]string{
		"Deployment/web waits for Service/db: env DATABASE_HOST names Service/db": "Deployment/web: env DATABASE_HOST names Service/db",
		"because": "because",
		"a: b":    "a: b",
	} {
		if got := shortWhy(why); got != want {
			t.Errorf("%q becomes %q, want %q", why, got, want)
		}
	}
}

// TestLogHasItsHeading: the lines of a log that fit are below their heading, or are named as the log.
func TestLogHasItsHeading(t *testing.T) {
	lines := []string{"condition Ready is False", "last lines of pod a, container b:", "  one", "  two", "  three"}
	for from, want := range map[int]string{
		0: "condition Ready is False|last lines of pod a, container b:|  one|  two|  three", 1: "last lines of pod a, container b:|  one|  two|  three",
		2: "last lines of pod a, container b:|  two|  three", 3: "last lines of pod a, container b:|  three", 4: "log: three", 5: "",
	} {
		if got := strings.Join(withHeading(lines, from), "|"); got != want {
			t.Errorf("from %d: %q, want %q", from, got, want)
		}
	}
}

// TestGroupNames: groups of one chart are called without it, as on the release's own screen.
func TestGroupNames(t *testing.T) {
	group := func(chart, name string) *event.GroupState {
		return &event.GroupState{Group: &plan.Group{ID: chart + ":" + name, Chart: chart, Name: name}}
	}
	namespace := &event.GroupState{Group: &plan.Group{ID: "namespace:shop"}}
	one := []*event.GroupState{namespace, group("shop", "db"), group("shop", "api")}
	if got := strings.Join(groupNames(one), " "); got != "namespace:shop db api" {
		t.Errorf("groups of one chart are %s", got)
	}
	if got := strings.Join(groupNames(append(one, group("mail", "api"))), " "); got != "namespace:shop shop:db shop:api mail:api" {
		t.Errorf("groups of two charts are %s", got)
	}
}
