package planfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/engine/event"
	"lockstep/engine/inspect"
	"lockstep/engine/phrase"
	"lockstep/engine/plan"
)

func noMask(s string) string { return s }

// TestFilesAreChecked reads files of other versions, files that were changed, and files of something else (R55).
func TestFilesAreChecked(t *testing.T) {
	f := File{By: "alice", At: time.Unix(1e9, 0).UTC(), Salt: []byte("salt"), Releases: []Release{{Operation: event.Operation{Name: "upgrade", Release: "shop"}, Last: 3}}}
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Read(text)
	if err != nil || read.By != "alice" || !read.At.Equal(f.At) || read.Release("").Last != 3 || read.Release("other") != nil {
		t.Errorf("%+v, %v", read, err)
	}
	if _, err := Read([]byte(strings.ReplaceAll(string(text), "\n", "\r\n\t"))); err != nil {
		t.Errorf("white space counts: %v", err)
	}
	for change, want := range map[string]string{
		`"last": 3>"last": 4`:        "changed after lockstep saved it",
		`"last": 3>"last": 3, "x":1`: "changed after lockstep saved it",
		`"version": 1>"version": 0`:  "not a plan",
		`"version": 1>"version": 2`:  "version 2, and this lockstep reads version 1",
		`{>[`:                        "not a plan",
		`"plan">"nalp"`:              "not a plan",
	} {
		from, to, _ := strings.Cut(change, ">")
		if _, err := Read([]byte(strings.Replace(string(text), from, to, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	for _, text := range []string{"", "{}", "null", "kind: Plan", `{"version":1}`} {
		if _, err := Read([]byte(text)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// TestSecretFieldsHaveOneSlowDigest: no field that is secret, or in which something is hidden, has a digest of its own.
func TestSecretFieldsHaveOneSlowDigest(t *testing.T) {
	hide := func(s string) string { return strings.ReplaceAll(s, "hunter2", "(hidden)") }
	p := Planned{
		Change: inspect.Change{Object: plan.Object{Kind: "Secret", Name: "db"}, Action: inspect.Modify},
		Sent:   Fields{"a": {Value: "b"}, "data.key": {Value: "c2VjcmV0", Secret: true}, "copy": {Value: "x hunter2"}},
		Before: Fields{"a": {Value: "a"}, "data.key": {Value: "b2xk", Secret: true}}, After: Fields{"a": {Value: "b"}, "data.key": {Value: "c2VjcmV0"}},
	}
	object := func(salt string) Object {
		o, err := NewObject([]byte(salt), p, hide, nil)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := object("salt")
	if got := slices.Concat(Keys(o.Sent, nil), Keys(o.Changed, nil)); !slices.Equal(got, []string{"a", "a"}) {
		t.Errorf("digests of %q", got)
	}
	if !strings.HasPrefix(o.SecretSent, "scrypt:") || !strings.HasPrefix(o.SecretChanged, "scrypt:") {
		t.Errorf("%+v", o)
	}
	p.Sent["c[hunter2]"] = Field{Value: 1}
	if now := object("salt"); now.SecretSent == o.SecretSent || slices.Contains(now.SecretFields, "c[hunter2]") || now.Sent["c[hunter2]"] != "" {
		t.Errorf("a path with a secret value: %+v", now)
	}
	delete(p.Sent, "c[hunter2]")
	if other := object("other"); other.SecretSent == o.SecretSent || other.Sent["a"] == o.Sent["a"] {
		t.Error("the salt does not count")
	}
	if want := []string{"copy", "data.key"}; !slices.Equal(o.SecretFields, want) {
		t.Errorf("secret fields %q, want %q", o.SecretFields, want)
	}
	// The same object, while other values are known to be secret.
	for _, hide := range []func(string) string{noMask, func(s string) string { return strings.ReplaceAll(hide(s), "b", "*") }} {
		now, err := NewObject([]byte("salt"), p, hide, &o)
		if moved := o.Compare(now, false); err != nil || len(moved) > 0 {
			t.Errorf("%v, %v", moved, err)
		}
	}
	p.Sent["copy"] = Field{Value: "y hunter2"}
	if now := object("salt"); now.SecretSent == o.SecretSent {
		t.Error("a changed secret value has the same digest")
	}
}

func TestComparedPlans(t *testing.T) {
	object := func(name string) *Object {
		return &Object{
			Change: inspect.Change{Phase: "apply", Group: "shop:a", Object: plan.Object{Kind: "ConfigMap", Name: name}, Action: inspect.Modify},
			Sent:   map[string]string{"data.a": "1"}, Changed: map[string]string{"data.a": "2"}, SecretSent: "s", SecretChanged: "t",
		}
	}
	make := func(change func(*Release, *Object)) Release {
		o := object("x")
		r := Release{
			Operation: event.Operation{Name: "upgrade", Release: "shop", Namespace: "prod", Chart: "shop-1"}, Cluster: Cluster{UID: "uid", Address: "a"}, Last: 2, Chart: "c", Values: "v",
			Options: map[string]string{"wait": "ordered"},
			Phases: []event.Phase{
				{Name: "namespace", Kind: event.PhaseNamespace, Groups: []*plan.Group{{ID: "namespace:prod"}}},
				{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "shop:a", After: []string{}}}},
			},
		}
		change(&r, o)
		r.Objects = append(r.Objects, *o)
		return r
	}
	approved := Saved{Release: make(func(*Release, *Object) {})}
	for want, change := range map[string]func(*Release, *Object){
		"":                           func(r *Release, _ *Object) { r.Phases = r.Phases[1:] }, // the namespace exists now
		"the cluster is another one": func(r *Release, _ *Object) { r.Cluster.UID = "other"; r.Last = 7 },
		"the operation is rollback shop, approved was upgrade shop":                                               func(r *Release, _ *Object) { r.Operation.Name = "rollback" },
		"the operation is upgrade cart, approved was upgrade shop":                                                func(r *Release, _ *Object) { r.Operation.Release = "cart" },
		"the namespace is test, approved was prod":                                                                func(r *Release, _ *Object) { r.Operation.Namespace = "test" },
		"release shop is at revision 3 now, and was at 2 when the plan was saved: a plan can be used once":        func(r *Release, _ *Object) { r.Last = 3 },
		"the rollback is to revision 1, approved was 0":                                                           func(r *Release, _ *Object) { r.Operation.ToRevision = 1 },
		"the chart is shop-2, approved was shop-1":                                                                func(r *Release, _ *Object) { r.Operation.Chart, r.Chart = "shop-2", "d" },
		"the files of chart shop-1 have changed":                                                                  func(r *Release, _ *Object) { r.Chart = "d" },
		"the values have changed":                                                                                 func(r *Release, _ *Object) { r.Values = "w" },
		"option wait is not set, approved was ordered":                                                            func(r *Release, _ *Object) { r.Options = nil },
		"option no-hooks is true, approved was not set":                                                           func(r *Release, _ *Object) { r.Options = map[string]string{"wait": "ordered", "no-hooks": "true"} },
		"group shop:a has other objects or waits for other groups":                                                func(r *Release, _ *Object) { r.Phases[1].Groups[0].After = []string{"shop:b"} },
		"ConfigMap/y: is not in the approved plan":                                                                func(r *Release, _ *Object) { r.Objects = append(r.Objects, *object("y")) },
		"ConfigMap/x: data.a is rendered differently":                                                             func(_ *Release, o *Object) { o.Sent["data.a"] = "3" },
		"ConfigMap/x: data.b is rendered differently":                                                             func(_ *Release, o *Object) { o.Sent["data.b"] = "3" },
		"ConfigMap/x: a secret value is rendered differently":                                                     func(_ *Release, o *Object) { o.SecretSent = "x" },
		"ConfigMap/x: data.a has changed in the cluster":                                                          func(_ *Release, o *Object) { o.Changed["data.a"] = "3" },
		"ConfigMap/x: a secret value has changed in the cluster":                                                  func(_ *Release, o *Object) { o.SecretChanged = "" },
		"ConfigMap/x: the action is unchanged, approved was change":                                               func(_ *Release, o *Object) { o.Action, o.Changed, o.SecretChanged = inspect.Unchanged, nil, "" },
		"ConfigMap/x: the action is refuse, approved was change (no right)":                                       func(_ *Release, o *Object) { o.Action, o.Message = inspect.Refuse, "no right" },
		"ConfigMap/x: is approved, but no longer part of the operation; ConfigMap/z: is not in the approved plan": func(_ *Release, o *Object) { o.Object.Name = "z" },
	} {
		var lines []string
		for _, m := range approved.Compare(make(change), false) {
			lines = append(lines, phrase.Moved(m))
		}
		if got := strings.Join(lines, "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	done := make(func(_ *Release, o *Object) { o.Action, o.Changed, o.SecretChanged = inspect.Unchanged, nil, "" })
	if moved := approved.Compare(done, true); len(moved) > 0 {
		t.Errorf("an object that a started run has applied: %v", moved)
	}
}

func TestSameCluster(t *testing.T) {
	admin := Cluster{UID: "system", Namespace: "prod", Address: "outside"}
	for c, want := range map[Cluster]bool{
		{UID: "system", Namespace: "again", Address: "inside"}: true, // the namespace was created again
		{UID: "other", Namespace: "prod", Address: "outside"}:  false,
		{Namespace: "prod", Address: "inside"}:                 true, // a ServiceAccount
		{Namespace: "other", Address: "outside"}:               false,
		{Address: "outside"}:                                   true,
		{Address: "inside"}:                                    false,
	} {
		if admin.Same(c) != want || c.Same(admin) != want {
			t.Errorf("%+v: %v", c, !want)
		}
	}
}

func TestOptionsByName(t *testing.T) {
	type Common struct {
		Timeout   time.Duration
		Namespace string
		BreakOn   []string
		WaitFor   []string
		OnStep    func(string)

		Approve     []string
		CheckImages string
	}
	yes := true
	got := Options(&struct {
		Common
		CleanupOnFail bool
		UpgradeCRDs   bool
		HistoryMax    int
		Values        map[string]any
		Labels        map[string]string
		Readiness     []struct{ Wait *bool }
		NoHooks       bool
	}{Common{time.Minute, "prod", []string{"a"}, []string{"Job/x"}, nil, []string{"a"}, "error"}, true, true, 10, map[string]any{"a": 1}, map[string]string{"b": "2"}, []struct{ Wait *bool }{{&yes}}, false})
	want := map[string]string{
		"wait-for": `["Job/x"]`, "cleanup-on-fail": "true", "upgrade-crds": "true", "history-max": "10", "labels": `{"b":"2"}`, "readiness": `[{"Wait":true}]`,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLateRefusalsDoNotDenyWrites (R55): "nothing was written" is true only before the run has begun.
func TestLateRefusalsDoNotDenyWrites(t *testing.T) {
	for _, late := range []bool{false, true} {
		err := &NotAsPlanned{Title: "upgrade s", Late: late, Moved: []inspect.Moved{{What: inspect.MovedCluster}, {What: inspect.MovedNamespace, Was: "a", Is: "b"}}}
		denies, lines := strings.Contains(err.Error(), "nothing was written"), strings.Count(err.Error(), "\n")
		if denies == late || (lines > 0) == late || !strings.HasPrefix(err.Error(), "upgrade s is not as approved; ") {
			t.Errorf("late %t: %s", late, err)
		}
	}
}
