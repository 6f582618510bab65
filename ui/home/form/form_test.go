package form

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"lockstep/theme"
)

// rig is a form alone on a screen. It handles the messages of its commands at once.
type rig struct {
	*host
	t      *testing.T
	source *samples
	ended  bool
}

// open opens a form with what is given of a command.
func open(t *testing.T, w, h int, look theme.Options, in Input) *rig {
	t.Helper()
	r := &rig{t: t, source: &samples{}}
	r.host = newHost(t.Context(), look, Options{Input: in, Source: r.source, Context: "prod-eu"})
	r.send(tea.WindowSizeMsg{Width: w, Height: h})
	r.run(r.Init())
	return r
}

func (r *rig) send(msg tea.Msg) {
	_, cmd := r.Update(msg)
	r.View()
	r.run(cmd)
}

// run handles the messages of a command. It skips timers, which take longer.
func (r *rig) run(cmd tea.Cmd) {
	if cmd == nil || r.ended {
		return
	}
	got := make(chan tea.Msg, 1)
	go func() { got <- cmd() }()
	select {
	case msg := <-got:
		switch msg := msg.(type) {
		case tea.BatchMsg:
			for _, c := range msg {
				r.run(c)
			}
		case tea.QuitMsg:
			r.ended = true
		case nil:
		default:
			r.send(msg)
		}
	case <-time.After(50 * time.Millisecond):
	}
}

// named are the keys that are not characters.
var named = map[string]tea.KeyPressMsg{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
	"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "pgdown": {Code: tea.KeyPgDown}, "ctrl+p": {Code: 'p', Mod: tea.ModCtrl}, "ctrl+s": {Code: 's', Mod: tea.ModCtrl},
	"space": {Code: tea.KeySpace, Text: " "}, "end": {Code: tea.KeyEnd}, "delete": {Code: tea.KeyDelete},
}

// press presses the keys of a script: names of keys, and other words, which are typed.
func (r *rig) press(script string) *rig {
	for _, word := range strings.Fields(script) {
		if k, ok := named[word]; ok {
			r.send(k)
			continue
		}
		for _, c := range word {
			r.send(tea.KeyPressMsg{Code: c, Text: string(c)})
		}
	}
	return r
}

func (r *rig) text() string { return ansi.Strip(r.View().Content) }

func (r *rig) shows(texts ...string) {
	r.t.Helper()
	for _, want := range texts {
		if !strings.Contains(r.text(), want) {
			r.t.Errorf("the form does not show %q:\n%s", want, r.text())
		}
	}
}

// samples is a Source with a few releases, charts, values files and revisions. It is not used concurrently.
type samples struct {
	planned   [][]string // the commands that were planned
	last      string     // where the release's chart was found last, "" if that is unknown
	owned     bool       // other managers own fields
	foreign   []string   // objects of others
	unordered bool       // the chart declares no order
	refuse    error
}

func (s *samples) Suggest(_ context.Context, in Input, f Field) ([]Suggestion, error) {
	switch f {
	case Name:
		if in.Operation == Install {
			return nil, nil
		}
		return []Suggestion{{Value: "shop", About: "revision 4, shop 1.2.0, deployed"}, {Value: "worker", About: "revision 9, worker 0.9.0, failed"}}, nil
	case Chart:
		if s.last != "" {
			return []Suggestion{{Value: s.last, About: "used last", Best: true}, {Value: "./worker", About: "worker 0.9.1"}}, nil
		}
		return []Suggestion{
			{Value: "./shop", About: "shop 1.3.0, A shop with an API (the release has 1.2.0)"}, {Value: "./worker", About: "worker 0.9.1"},
			{Value: "example/postgresql", About: "repository example"}, {Value: "oci://registry.example.com/", About: "registry"},
		}, nil
	case Version:
		return []Suggestion{{Value: "1.3.0", About: "the version of the folder"}}, nil
	case Values:
		if in.Operation == Upgrade {
			return []Suggestion{{Value: "revision 2", About: "27 Nov 09:12, shop 1.1.0, values: replicas, tag", Detail: []Line{{Role: theme.Strong, Text: "Upgrade complete, by ann on box"}, {Role: theme.Strong, Text: "unlike revision 4"}, {Indent: 4, Role: theme.Bad, Text: "- replicas: 5"}, {Indent: 4, Role: theme.Good, Text: "+ replicas: 3"}}}, {Value: "values-prod.yaml"}, {Value: "shop/values.yaml", About: "the defaults of chart shop"}}, nil
		}
		return []Suggestion{{Value: "values-prod.yaml"}, {Value: "shop/values.yaml", About: "the defaults of chart shop"}}, nil
	case Namespace:
		return []Suggestion{{Value: "default"}, {Value: "shop"}}, nil
	case Revision:
		return []Suggestion{
			{Value: "3", About: "28 Nov 21:40, shop 1.2.0, failed, objects: 1 changed", Detail: []Line{{Role: theme.Strong, Text: "Upgrade \"shop\" failed: timeout, by ci on runner-7"}, {Role: theme.Busy, Text: "~ Deployment/api"}, {Indent: 2, Text: "spec.template.spec.containers[api]"}, {Indent: 4, Role: theme.Bad, Text: "- image: shop/api:1.1"}, {Indent: 4, Role: theme.Good, Text: "+ image: shop/api:1.2"}}},
			{Value: "2", About: "27 Nov 09:12, shop 1.1.0, superseded, values, objects: 1 added", Best: true, Detail: []Line{{Role: theme.Strong, Text: "Upgrade complete, by ann on box"}, {Role: theme.Strong, Text: "values"}, {Indent: 4, Role: theme.Bad, Text: "- replicas: 1"}, {Indent: 4, Role: theme.Good, Text: "+ replicas: 3"}, {Role: theme.Good, Text: "+ ConfigMap/banner"}}},
			{Value: "1", About: "26 Nov 17:00, shop 1.0.0, superseded", Detail: []Line{{Role: theme.Strong, Text: "Install complete, by ann on box"}, {Role: theme.Strong, Text: "the first revision"}}},
		}, nil
	}
	return nil, nil
}

func (s *samples) Plan(_ context.Context, args []string) (Plan, error) {
	s.planned = append(s.planned, slices.Clone(args))
	if s.refuse != nil {
		return Plan{}, s.refuse
	}
	if s.foreign != nil && !slices.Contains(args, "--take-ownership") {
		return Plan{Lines: []Line{{Role: theme.Bad, Text: "error: ConfigMap/a (namespace shop) is owned by release b: rename it, or take it over with --take-ownership"}}, Refused: true, Foreign: s.foreign}, nil
	}
	if s.owned && !slices.Contains(args, "--force-conflicts") {
		return Plan{Lines: []Line{{Role: theme.Bad, Text: "! Deployment/api refused: kubectl owns .spec.replicas"}}, Refused: true, Conflicts: true}, nil
	}
	if s.unordered {
		return Plan{Lines: samplePlan, Counts: sampleCounts(3, 0, 0, 0), Unordered: !slices.Contains(args, "--order=inferred")}, nil
	}
	if args[0] == Uninstall {
		return Plan{
			Lines: []Line{
				{Role: theme.Strong, Text: "uninstall shop: chart shop-1.2.0, namespace shop"},
				{},
				{Role: theme.Strong, Text: "delete"},
				{Indent: 2, Text: "shop:api"},
				{Indent: 4, Role: theme.Bad, Text: "- Deployment/api delete"},
				{Indent: 4, Role: theme.Bad, Text: "- ConfigMap/api delete"},
			},
			Counts: sampleCounts(0, 0, 2, 0), Deletes: []string{"Deployment/api", "ConfigMap/api"},
		}, nil
	}
	return Plan{Lines: samplePlan, Counts: append(sampleCounts(1, 2, 0, 14), Count{1, "hook to run"})}, nil
}

func (s *samples) SavePlan(_ context.Context, in Input) (string, error) {
	if s.refuse != nil {
		return "", s.refuse
	}
	return in.Name + ".plan", nil
}

func (s *samples) Values(context.Context, Input) (string, error) {
	return "", errors.New("no editor in this test")
}
func (s *samples) Save(string, string, string, string) (string, error) {
	return "", errors.New("no files in this test")
}

// TestUpgradeChart: an upgrade has the chart that was used last, which is replaced by what the user types or chooses.
func TestUpgradeChart(t *testing.T) {
	upgrade := func() *rig {
		r := &rig{t: t, source: &samples{last: "/srv/charts/shop"}}
		r.host = newHost(t.Context(), bare, Options{Input: Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}, Source: r.source})
		r.send(tea.WindowSizeMsg{Width: 100, Height: 30})
		r.run(r.Init())
		return r
	}
	for keys, want := range map[string]string{
		"enter":                    "upgrade shop /srv/charts/shop -n shop",
		"./other enter":            "upgrade shop ./other -n shop",
		"end /web enter":           "upgrade shop /srv/charts/shop/web -n shop",
		"down enter ctrl+p":        "upgrade shop ./worker -n shop",
		"tab shift+tab tab ctrl+p": "upgrade shop /srv/charts/shop -n shop",
	} {
		r := upgrade().press(keys)
		if got := strings.Join(slices.Concat(r.source.planned...), " "); got != want {
			t.Errorf("%q plans %q, want %q:\n%s", keys, got, want, r.text())
		}
	}
	upgrade().shows("▸ chart       /srv/charts/shop", "ctrl-e edit values")
}

// TestForceConflicts: if other managers own fields, f makes the plan again with --force-conflicts.
func TestForceConflicts(t *testing.T) {
	r := open(t, 100, 30, bare, Input{Operation: Upgrade, Name: "shop", Chart: "./shop", Namespace: "shop", Values: "v.yaml"})
	r.press("m")
	r.shows("no other manager owns a field that this sets")
	r = &rig{t: t, source: &samples{owned: true}}
	r.host = newHost(t.Context(), bare, Options{Input: Input{Operation: Upgrade, Name: "shop", Chart: "./shop", Namespace: "shop"}, Source: r.source})
	r.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	r.run(r.Init())
	r.shows("lockstep would refuse this", "m take over fields")
	r.press("m")
	r.shows("ready to start", "$ lockstep upgrade shop ./shop -n shop --force-conflicts")
	if r.press("enter"); !slices.Contains(r.args, "--force-conflicts") {
		t.Errorf("the command is %q", r.args)
	}
}

// TestTakeOwnership: if objects belong to others, M makes the plan again with --take-ownership, and the start asks for the name. In
// the fields, the choice is forgotten.
func TestTakeOwnership(t *testing.T) {
	r := &rig{t: t, source: &samples{foreign: []string{"ConfigMap/a"}}}
	r.host = newHost(t.Context(), bare, Options{Input: Input{Operation: Upgrade, Name: "shop", Chart: "./shop", Namespace: "shop"}, Source: r.source})
	r.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	r.run(r.Init())
	r.shows("lockstep would refuse this", "M take over objects")
	r.press("M")
	r.shows("ready to start", "$ lockstep upgrade shop ./shop -n shop --take-ownership", "Takes over 1 object: ConfigMap/a")
	r.press("esc ctrl+p")
	r.shows("lockstep would refuse this")
	r.press("M enter")
	r.shows("Type shop to start")
	if r.ended {
		t.Fatalf("it has started without the name: %q", r.args)
	}
	if r.press("shop enter"); !slices.Contains(r.args, "--take-ownership") {
		t.Errorf("the command is %q", r.args)
	}
}

// TestInferOrder: if a new release's chart declares no order, I makes the plan again with --order=inferred.
func TestInferOrder(t *testing.T) {
	r := &rig{t: t, source: &samples{unordered: true}}
	r.host = newHost(t.Context(), bare, Options{Input: Input{Operation: Install, Name: "shop", Chart: "./shop", Namespace: "shop"}, Source: r.source})
	r.send(tea.WindowSizeMsg{Width: 100, Height: 30})
	r.run(r.Init())
	r.shows("The chart declares no order. Press I to deploy in the order that its objects imply.", "I infer order")
	r.press("I")
	r.shows("$ lockstep install shop ./shop -n shop --order=inferred")
	if text := r.text(); strings.Contains(text, "infer order") {
		t.Errorf("the order is inferred, but\n%s", text)
	}
	if r.press("enter"); !slices.Contains(r.args, "--order=inferred") {
		t.Errorf("the command is %q", r.args)
	}
}

func sampleCounts(create, change, remove, unchanged int) []Count {
	return []Count{{create, "to create"}, {change, "to change"}, {remove, "to delete"}, {unchanged, "unchanged"}}
}

var samplePlan = []Line{
	{Role: theme.Stopped, Text: "warning: R30: Deployment/legacy is no longer in the chart"},
	{Role: theme.Strong, Text: "upgrade shop: chart shop-1.3.0, namespace shop"},
	{},
	{Role: theme.Strong, Text: "pre-upgrade hooks"},
	{Indent: 4, Role: theme.Accent, Text: "> Job/migrate hook"},
	{},
	{Role: theme.Strong, Text: "apply"},
	{Indent: 2, Text: "shop/db:database waits for Secret/db-password (namespace vault)"},
	{Indent: 4, Role: theme.Quiet, Text: "= StatefulSet/db unchanged, stable for 30s"},
	{Indent: 2, Text: "shop:api"},
	{Indent: 4, Role: theme.Busy, Text: "~ Deployment/api change"},
	{Indent: 8, Role: theme.Quiet, Text: "@@ -17,7 +17,7 @@"},
	{Indent: 8, Text: "   containers:"},
	{Indent: 8, Text: "   - name: api"},
	{Indent: 8, Role: theme.Bad, Text: "-    image: registry.example.com/shop/api:1.2.0"},
	{Indent: 8, Role: theme.Good, Text: "+    image: registry.example.com/shop/api:1.3.0"},
	{Indent: 8, Text: "     env:"},
	{Indent: 8, Text: "     - name: DATABASE_HOST"},
	{Indent: 8, Role: theme.Quiet, Text: "@@ -44,6 +44,6 @@"},
	{Indent: 8, Role: theme.Bad, Text: "-  replicas: 2"},
	{Indent: 8, Role: theme.Good, Text: "+  replicas: 3"},
	{Indent: 4, Role: theme.Busy, Text: "~ ConfigMap/api change"},
	{Indent: 8, Role: theme.Quiet, Text: "@@ -3,4 +3,4 @@"},
	{Indent: 8, Text: " data:"},
	{Indent: 8, Role: theme.Bad, Text: "-  features: basket"},
	{Indent: 8, Role: theme.Good, Text: "+  features: basket,search,recommendations,wishlist,gift-cards,subscriptions,returns,stock-alerts,reviews,ratings"},
	{Indent: 4, Role: theme.Good, Text: "+ HorizontalPodAutoscaler/api create"},
	{Indent: 2, Text: "shop:web"},
	{Indent: 4, Role: theme.Quiet, Text: "= Deployment/web unchanged"},
	{Indent: 4, Role: theme.Quiet, Text: "= Service/web unchanged"},
}

// TestCommands: the keys that a user presses in a form, and the command that it ends with.
func TestCommands(t *testing.T) {
	shop := Input{Operation: Upgrade, Name: "shop", Namespace: "shop"}
	flags := Input{Operation: Upgrade, Name: "shop", Namespace: "shop", Flags: []string{"--set", "a=b", "--timeout", "10m"}}
	for _, c := range []struct {
		name string
		in   Input
		keys string
		want string // "" for none
	}{
		{"install", Input{Operation: Install, Namespace: "shop"}, "cart enter enter enter enter", "install cart ./shop -n shop"},
		{"install in a new namespace", Input{Operation: Install, Namespace: "default"}, "cart enter ./w tab tab tab end -2 enter enter", "install cart ./worker -n default-2 --create-namespace"},
		{"type another namespace", Input{Operation: Install, Namespace: "default"}, "cart enter ./w tab tab tab team1 enter enter", "install cart ./worker -n team1 --create-namespace"},
		{"tab takes the only chart", Input{Operation: Install, Namespace: "shop"}, "cart enter gres tab ctrl+p enter", "install cart example/postgresql -n shop"},
		{"install without a folder", Input{Operation: Install, Namespace: "shop"}, "db enter example/postgresql enter enter enter", "install db example/postgresql -n shop"},
		{"upgrade", shop, "enter enter enter", "upgrade shop ./shop -n shop"},
		{"upgrade to a version", shop, "down down enter 1.9 enter enter", "upgrade shop example/postgresql --version 1.9 -n shop"},
		{"upgrade with values", shop, "enter tab values- tab enter enter", "upgrade shop ./shop -f values-prod.yaml -n shop"},
		{"upgrade with values on top", shop, "enter tab values- tab space enter enter", "upgrade shop ./shop -f values-prod.yaml --reuse-values -n shop"},
		{"a registry is only the start of a chart", shop, "oci tab shop enter enter", "upgrade shop oci://registry.example.com/shop -n shop"},
		{"a registry that is chosen", shop, "down down down enter shop enter enter", "upgrade shop oci://registry.example.com/shop -n shop"},
		{"upgrade with two files", shop, "enter tab a.yaml,values- tab ctrl+p enter", "upgrade shop ./shop -f a.yaml,values-prod.yaml -n shop"},
		{"upgrade with the values of a revision", shop, "enter tab down enter ctrl+p enter", "upgrade shop ./shop --values-from-revision 2 -n shop"},
		{"upgrade with the values of a revision and a file", shop, "enter tab down enter shift+tab ,values- tab ctrl+p enter", "upgrade shop ./shop --values-from-revision 2 -f values-prod.yaml -n shop"},
		{"upgrade with flags", flags, "enter ctrl+p enter", "upgrade shop ./shop -n shop --set a=b --timeout 10m"},
		{"upgrade with flags on the last values", flags, "enter tab tab space ctrl+p enter", "upgrade shop ./shop --reuse-values -n shop --set a=b --timeout 10m"},
		{"start paused", shop, "enter enter p", "upgrade shop ./shop -n shop --step"},
		{"change the chart after the plan", shop, "enter enter esc shift+tab down enter ctrl+p enter", "upgrade shop ./worker -n shop"},
		{"rollback", Input{Operation: Rollback, Namespace: "shop"}, "enter enter enter", "rollback shop 2 -n shop"},
		{"rollback to another revision", Input{Operation: Rollback, Name: "shop", Namespace: "shop"}, "down enter enter", "rollback shop 1 -n shop"},
		{"uninstall", Input{Operation: Uninstall, Namespace: "shop"}, "enter enter shop enter", "uninstall shop -n shop"},
		{"uninstall without the name", Input{Operation: Uninstall, Namespace: "shop"}, "enter enter enter", ""},
		{"uninstall with another name", Input{Operation: Uninstall, Namespace: "shop"}, "enter enter worker enter", ""},
		{"test", Input{Operation: Test, Namespace: "shop"}, "wor tab ctrl+p enter", "test worker -n shop"},
		{"cancel", shop, "esc", ""},
		{"cancel the plan", shop, "enter enter esc esc", ""},
		{"enter without a chart", Input{Operation: Install, Namespace: "shop"}, "enter enter", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := open(t, 100, 30, theme.Options{}, c.in).press(c.keys)
			if got := strings.Join(r.args, " "); got != c.want {
				t.Errorf("got %q, want %q\n%s", got, c.want, r.text())
			}
			if c.want != "" && !r.ended {
				t.Error("the form is still open")
			}
			if n := len(r.source.planned); r.args != nil && (n == 0 || !slices.Equal(r.source.planned[n-1], slices.DeleteFunc(slices.Clone(r.args), func(a string) bool { return a == "--step" }))) {
				t.Errorf("it starts %v, but planned %v", r.args, r.source.planned)
			}
		})
	}
}

// TestWrongName: what the user types to confirm stays visible beside the message that it is another name.
func TestWrongName(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Uninstall, Namespace: "shop"}).press("enter enter worker enter")
	r.shows("Type shop to start: worker", "type shop to confirm", "↵ start")
	if r.ended {
		t.Error("a wrong name starts")
	}
}

// TestKeysOfARefusal: a refusal that advises a flag names the key for it, and the footer has one key to go back.
func TestKeysOfARefusal(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Upgrade, Name: "shop", Namespace: "shop"})
	r.source.foreign = []string{"ConfigMap/a"}
	r.press("enter enter").shows("take it over with M", "M take over objects", "esc back")
	if strings.Contains(r.text(), "ctrl-c") {
		t.Errorf("the footer has two keys to go back:\n%s", r.text())
	}
}

// TestRemarksBesideTheirFields: no remark of a form is cut at 60 columns; that of an empty field stands in the place of its text.
func TestRemarksBesideTheirFields(t *testing.T) {
	r := open(t, 60, 20, theme.Options{}, Input{Operation: Install, Name: "cart", Namespace: "shop"})
	r.shows("version     empty: the folder's, or the newest", "values      empty: the chart's defaults", "You see the plan before anything is written.")
}

// TestChartByItsName: the chart that is called as typed comes before those whose name contains that, in whatever folder it is.
func TestChartByItsName(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Install, Name: "cart", Namespace: "shop"})
	in := r.form.input()
	r.form.lists.known[key(in, Chart)] = answer{done: true, list: []Suggestion{{Value: "./plain-shop"}, {Value: "./shop-api"}, {Value: "./charts/shop"}}}
	for typed, want := range map[string]string{"shop": "./charts/shop ./shop-api ./plain-shop", "sho": "./shop-api ./charts/shop ./plain-shop", "plain": "./plain-shop"} {
		r.form.current().input.SetValue(typed)
		r.form.lists.known[key(r.form.input(), Chart)] = r.form.lists.known[key(in, Chart)]
		var got []string
		for _, s := range r.form.rows() {
			got = append(got, s.Value)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q finds %q, want %s", typed, got, want)
		}
	}
}

// TestRefusedPlan: what lockstep would refuse cannot start, and says why.
func TestRefusedPlan(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Upgrade, Name: "shop", Namespace: "shop"})
	r.source.refuse = errors.New("chart ./shop: no such directory or archive; check the path")
	r.press("enter enter enter p")
	r.shows("lockstep would refuse this", "error: chart ./shop: no such directory")
	if r.ended {
		t.Errorf("it has started %v", r.args)
	}
	r.source.refuse = nil
	if r.press("esc ctrl+p enter"); !r.ended {
		t.Errorf("it does not start after the fields were changed:\n%s", r.text())
	}
}

// TestHelpInPlan: ? in the plan shows its keys, and esc closes them.
func TestHelpInPlan(t *testing.T) {
	r := open(t, 100, 30, bare, Input{Operation: Upgrade, Name: "shop", Chart: "./shop", Namespace: "shop"})
	r.press("?")
	r.shows("in the plan of a form", "start paused, before the first write")
	r.press("esc enter")
	if !slices.Contains(r.args, "upgrade") {
		t.Errorf("after the help, enter does not start:\n%s", r.text())
	}
}

// TestSavedPlan: ctrl-s saves the plan of the command, and says where; a refused plan cannot be saved.
func TestSavedPlan(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Upgrade, Name: "shop", Namespace: "shop"})
	r.press("enter enter ctrl+s")
	r.shows("plan saved in shop.plan; add --plan shop.plan to the command")
	r.source.refuse = errors.New("templates render something else:\n  each time")
	r.press("ctrl+s")
	r.shows("cannot save the plan: templates render something else: each time")
	r.press("esc enter enter ctrl+s")
	if r.shows("lockstep would refuse this"); strings.Contains(r.text(), "plan saved") {
		t.Errorf("a refused plan is saved:\n%s", r.text())
	}
}

// TestPlanKnowsTheNamespace: a plan that is made before the list of namespaces has come creates a missing namespace, too.
func TestPlanKnowsTheNamespace(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Install, Name: "cart", Chart: "./shop", Namespace: "shop-2"})
	r.press("esc")
	r.form.lists.known = map[string]answer{}
	r.press("ctrl+p enter")
	if got := strings.Join(r.args, " "); got != "install cart ./shop -n shop-2 --create-namespace" {
		t.Errorf("it starts %s", got)
	}
}

// TestEscCancelsThePlan: esc ends the context of a plan that is being made, and its late answer is ignored.
func TestEscCancelsThePlan(t *testing.T) {
	r := open(t, 100, 30, theme.Options{}, Input{Operation: Upgrade, Name: "shop", Namespace: "shop", Chart: "./shop"})
	slow := &slowPlan{samples: r.source, cancelled: make(chan struct{})}
	r.form.o.Source = slow
	r.press("esc ctrl+p")
	r.shows("making the plan")
	r.press("enter")
	if r.ended {
		t.Fatal("it has started without a plan")
	}
	r.press("esc")
	<-slow.cancelled
	r.shows("You see the plan before anything is written")
	r.send(planned{n: r.form.review.n, plan: Plan{Lines: []Line{{Text: "late"}}}})
	if strings.Contains(r.text(), "late") {
		t.Errorf("a cancelled plan is shown:\n%s", r.text())
	}
}

// TestEscFromAPlanMadeAtOnce: esc leaves the plan of a rollback, an uninstall or a test that was made without showing the fields. It
// leads to the fields of an upgrade, and to fields that the user has filled in.
func TestEscFromAPlanMadeAtOnce(t *testing.T) {
	for _, c := range []struct {
		Input
		keys string
		ends bool
	}{
		{Input{Operation: Rollback, Name: "shop", Namespace: "shop", Revision: "3"}, "esc", true},
		{Input{Operation: Uninstall, Name: "shop", Namespace: "shop"}, "esc", true},
		{Input{Operation: Uninstall, Name: "shop", Namespace: "shop"}, "enter esc", false},
		{Input{Operation: Test, Name: "shop", Namespace: "shop"}, "esc", true},
		{Input{Operation: Upgrade, Name: "shop", Namespace: "shop", Chart: "./shop"}, "esc", false},
		{Input{Operation: Rollback, Namespace: "shop"}, "enter enter esc", false},
	} {
		r := open(t, 100, 30, theme.Options{}, c.Input)
		r.press(c.keys)
		if r.ended != c.ends || r.args != nil {
			t.Errorf("%s of %q: after %s, the form has ended: %v, with %q", c.Operation, c.Name, c.keys, r.ended, r.args)
		}
	}
}

type slowPlan struct {
	*samples
	cancelled chan struct{}
}

func (s *slowPlan) Plan(ctx context.Context, _ []string) (Plan, error) {
	<-ctx.Done()
	close(s.cancelled)
	return Plan{}, ctx.Err()
}

// TestTypingReplaces: the first key that is typed into a filled field replaces its text, and the cursor keys edit it. Enter takes the
// grey rest of a suggestion, unless delete has dropped it.
func TestTypingReplaces(t *testing.T) {
	for script, want := range map[string]string{
		"ot enter":        "upgrade shop ./shop -n ot",
		"end 2 enter":     "upgrade shop ./shop -n shop2",
		"sh enter":        "upgrade shop ./shop -n shop",
		"sh delete enter": "upgrade shop ./shop -n sh",
	} {
		r := open(t, 100, 30, theme.Options{}, Input{Operation: Upgrade, Name: "shop", Chart: "./shop", Namespace: "shop"})
		r.press("esc") // the plan, which is made at once
		r.source.planned = nil
		for r.form.current().field != Chart {
			r.press("shift+tab")
		}
		for r.form.current().field != Namespace {
			r.press("tab")
		}
		r.press(script)
		if got := strings.Join(slices.Concat(r.source.planned...), " "); got != want {
			t.Errorf("%q plans %q, want %q:\n%s", script, got, want, r.text())
		}
	}
}

// TestPartOfAChart: enter takes the chart of which a part is typed, because nothing but a suggestion can have such a name, unless delete
// has said that the text counts.
func TestPartOfAChart(t *testing.T) {
	for script, want := range map[string]string{"wor enter": "./worker", "wor delete enter": "wor", "oci://wor enter": "oci://wor"} {
		r := open(t, 100, 30, theme.Options{}, Input{Operation: Install, Name: "cart", Namespace: "shop"})
		for r.form.current().field != Chart {
			r.press("tab")
		}
		r.press(script)
		if got := r.form.input().Chart; got != want {
			t.Errorf("%q is chart %q, want %q:\n%s", script, got, want, r.text())
		}
	}
}
