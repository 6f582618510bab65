package report

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
	"lockstep/engine/run"
	"lockstep/ui/golden"
)

// manyRoots is an install in which two groups fail at the same time, one of them because of two
// objects, so that ten groups never start.
func manyRoots(t *testing.T) []event.Event {
	lines := []string{"shop:db: StatefulSet/db, Deployment/pooler", "shop:queue: Deployment/queue"}
	for i := range 10 {
		lines = append(lines, fmt.Sprintf("shop:g%d < shop:db, shop:queue: ConfigMap/c%d", i, i))
	}
	return record(t, run.Options{Heartbeat: 10 * sec}, func(b *bench) {
		groups := readPlan(lines...)
		b.Announce(apply(groups))
		r := b.Start(run.Stage{Phase: apply(groups), ObjectTimeout: 25 * sec, Cluster: newFake(map[string]behaviour{
			"db": {never: true}, "pooler": {never: true}, "queue": {ready: 3 * sec, failed: "the deployment exceeded its progress deadline"}})})
		b.at(1 * sec)
		diagnosed := func(g *plan.Group, n int, cause string, evidence ...string) {
			b.Publish(event.Event{Kind: event.KindDiagnosis, Phase: "apply", Group: g.ID, Object: &g.Objects[n], Message: cause, Cause: cause, Evidence: evidence, Lines: []string{"pod of " + g.Objects[n].Name}})
		}
		diagnosed(groups[0], 0, `claim data-db-0 has no volume: StorageClass "fast" does not exist`, `ProvisioningFailed: storageclass.storage.k8s.io "fast" not found`)
		diagnosed(groups[0], 1, "container pooler exited with code 1 (1 restart): FATAL: no route to db", "FATAL: no route to db", "BackOff: Back-off restarting failed container pooler")
		b.at(12 * sec)
		diagnosed(groups[0], 1, "container pooler exited with code 1 (2 restarts): FATAL: no route to db", "FATAL: no route to db")
		finish(b, r.Wait())
	})
}

// refused is an upgrade that is rolled back because the API server refuses an object.
func refused(t *testing.T) []event.Event {
	upgrade := install
	upgrade.Name, upgrade.Revision, upgrade.PreviousRevision = "upgrade", 4, 3
	return record(t, run.Options{Operation: upgrade}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		err := b.Run(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(map[string]behaviour{"ddl": {refused: `create ConfigMap/ddl: exceeded quota: counts, used: configmaps=9, limited: configmaps=9`}}))})
		_ = b.StartRollback(event.Operation{Name: "rollback", ToRevision: 3, Timeout: time.Minute}, err.Error())
		back := event.Phase{Name: "rollback/apply", Kind: event.PhaseApply, Groups: readPlan("shop/db:schema: ConfigMap/ddl")}
		b.Announce(back)
		_ = b.Run(run.Stage{Phase: back, Cluster: newFake(nil)})
		b.Finish(run.End{Status: event.Failed, Message: "the release was rolled back to revision 3: " + err.Error(), Outcome: "the release was rolled back to revision 3", Exit: 1})
	})
}

// hookFails is an install whose first hook fails.
func hookFails(t *testing.T) []event.Event {
	return record(t, run.Options{Diagnose: diagnose}, func(b *bench) {
		groups := readPlan(shop...)
		pre := hooks("pre-install", readPlan("pre-install:Job/migrate: Job/migrate"))
		b.Announce(pre, apply(groups))
		finish(b, b.Run(run.Stage{Phase: pre, Cluster: newFake(map[string]behaviour{"migrate": {ready: sec, failed: "1 of 1 failed"}})}))
	})
}

// timesOut is an install that --timeout ends.
func timesOut(t *testing.T) []event.Event {
	short := install
	short.Timeout = 8 * sec
	return record(t, run.Options{Operation: short}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		finish(b, b.Run(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(map[string]behaviour{"queue": {never: true}}))}))
	})
}

// noGroupFails is an install that fails although all of its groups are ready.
func noGroupFails(t *testing.T) []event.Event {
	return record(t, run.Options{}, func(b *bench) {
		groups := readPlan(shop...)
		b.Announce(apply(groups))
		_ = b.Run(run.Stage{Phase: apply(groups), Cluster: newFake(behaviours(nil))})
		err := errors.New("write the release record: etcdserver: request is too large")
		b.Finish(run.End{Status: event.Failed, Message: "the release is marked failed: " + err.Error(), Outcome: "the release is marked failed", Exit: 1})
	})
}

// TestLastLinesOfFailure expects the next commands and the root failures, each once, in the last 15 lines of a
// failed operation, and no consequences of a failure.
func TestLastLinesOfFailure(t *testing.T) {
	for name, c := range map[string]struct {
		scenario func(*testing.T) []event.Event
		want     []string
	}{
		"roots": {manyRoots, []string{
			"✗ Deployment/queue in shop:queue: the deployment exceeded its progress deadline",
			`✗ StatefulSet/db in shop:db: claim data-db-0 has no volume: StorageClass "fast" does not exist; gave up after 25s (--readiness-timeout)`,
			"✗ Deployment/pooler in shop:db: container pooler exited with code 1 (2 restarts): FATAL: no route to db; not ready when the group failed (25s)",
			"ProvisioningFailed", "\n✗ install shop failed"}},
		"refused": {refused, []string{"ConfigMap/ddl in shop/db:schema: create ConfigMap/ddl: exceeded quota: counts, used: configmaps=9", "the release was rolled back to revision 3"}},
		"hook":    {hookFails, []string{"Job/migrate: container migrate exited with code 2: FATAL:", "BackoffLimitExceeded"}},
		"timeout": {timesOut, []string{"Service/queue in shop/queue:broker: 0 of 1 available; gave up after 8s (--timeout)"}},
		"none":    {noGroupFails, []string{"install shop failed", "etcdserver: request is too large"}},
		"failed":  {failed, []string{`Job/migrate in shop/db:schema: container migrate exited with code 2: FATAL: relation "orders" does not exist`}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			to := Stream{Writer: &out, Style: plain}
			s := Replay(c.scenario(t), New(ModeText, to, to).Operation(Options{
				Next: func(*event.State) []string {
					return []string{"lockstep install shop ./shop -n shop", "lockstep uninstall shop -n shop"}
				},
				Record: func() string { return "20000101-000000-shop" },
			}))
			golden.CompareFile(t, "testdata/failure-"+name+".txt", out.String())
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			last := strings.Join(lines[len(lines)-15:], "\n")
			for _, want := range append(c.want, "\n  next: lockstep install shop ./shop -n shop\n") {
				if !strings.Contains(last, want) {
					t.Errorf("the last lines lack %q:\n%s", want, last)
				}
			}
			_, end, _ := strings.Cut(last, "shop failed after")
			for _, r := range s.Roots() {
				line := regexp.MustCompile(`(?m)^✗ .*: ` + regexp.QuoteMeta(phrase.Why(r)) + `$`)
				if len(line.FindAllString(last, -1)) != 1 || !line.MatchString(end) {
					t.Errorf("%q is not once after the outcome:\n%s", phrase.Root(r), last)
				}
			}
		})
	}
}

// TestEvidenceFollowsItsFailure: evidence is right below the line about the failure, before the line about the held run, also if
// a retried group fails before it is diagnosed again.
func TestEvidenceFollowsItsFailure(t *testing.T) {
	events := record(t, run.Options{HoldOnFailure: true, Diagnose: diagnose}, func(b *bench) {
		groups := readPlan("c:a: Job/a")
		b.Announce(apply(groups))
		r := b.Start(run.Stage{Phase: apply(groups), ObjectTimeout: 2 * sec, Cluster: newFake(map[string]behaviour{"a": {never: true}})})
		b.at(10 * sec)
		b.command(event.Retry, "")
		b.at(20 * sec)
		b.command(event.GiveUp, "")
		finish(b, r.Wait())
	})
	var out bytes.Buffer
	Replay(events, newTextLog(&out, &out, Options{Style: plain, Steer: "lockstep ctl c"}))
	log := out.String()
	lines, failures := strings.Split(log, "\n"), 0
	for n, l := range lines {
		if strings.Contains(l, "✗ c:a failed") {
			failures++
			if !strings.Contains(lines[n+1], "│") {
				t.Errorf("no evidence follows the failure %q:\n%s", l, log)
			}
		}
		if strings.Contains(l, "│") && strings.Contains(lines[n-1], "control it with") {
			t.Errorf("evidence follows %q:\n%s", lines[n-1], log)
		}
	}
	if failures != 2 {
		t.Errorf("%d failures, want 2:\n%s", failures, log)
	}
}

// TestFailureFitsTenLines expects the cause and the evidence in the first lines of a
// failure, before anything else.
func TestFailureFitsTenLines(t *testing.T) {
	var out bytes.Buffer
	Replay(manyRoots(t), newTextLog(&out, &out, Options{Style: plain}))
	_, after, _ := strings.Cut(out.String(), "✗ ")
	lines := strings.SplitN(after, "\n", 11)
	ten := strings.Join(lines[:10], "\n")
	_, after, _ = strings.Cut(after, "✗ ")
	if first := strings.SplitN(after, "\n", 3); !strings.Contains(first[0], "StatefulSet/db: claim") || !strings.Contains(first[1], "✗ Deployment/pooler in shop:db: container pooler exited") {
		t.Errorf("the group's two roots do not have a line each:\n%s", after)
	}
	for _, want := range []string{"Deployment/queue: the deployment exceeded", `StatefulSet/db: claim data-db-0 has no volume: StorageClass "fast" does not exist`, "ProvisioningFailed"} {
		if !strings.Contains(ten, want) {
			t.Errorf("not in the first ten lines: %q\n%s", want, ten)
		}
	}
	if n := strings.Count(out.String(), "not started"); n != 1 {
		t.Errorf("%d lines list groups that were not started:\n%s", n, out.String())
	}
	if want := "waiting for StatefulSet/db in shop:db: claim data-db-0 has no volume"; !strings.Contains(out.String(), want) {
		t.Errorf("the heartbeat lacks the cause: %s", out.String())
	}
}

// TestNewestLogLinesAreKept expects that a container's oldest log lines are dropped first if
// several failures share the lines for evidence, and that the others keep their order.
func TestNewestLogLinesAreKept(t *testing.T) {
	evidence := []string{"FATAL: x", "BackOff: again", "two", "three", "four"}
	diagnosis := []string{"last lines of pod p, container c:", "one", "two", "three", "four", "FATAL: x"}
	for limit, want := range map[int][]string{
		9: {"BackOff: again", "two", "three", "four"},
		3: {"BackOff: again", "three", "four"},
		2: {"BackOff: again", "four"},
		1: {"BackOff: again"},
	} {
		if got := shorten(slices.Clone(evidence[1:]), diagnosis, limit); !slices.Equal(got, want) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
	if got := shorten([]string{"a", "b"}, nil, 1); !slices.Equal(got, []string{"a"}) {
		t.Errorf("without an object: %q", got)
	}
}
