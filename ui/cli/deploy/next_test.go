package deploy

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/engine/event"
	"lockstep/engine/plan"
	"lockstep/kube/mask"
	"lockstep/ui/cli/command"
)

// endedState returns the state of an operation whose group ended with the status group. Unless
// back is "", a rollback followed, whose group ended with that status.
func endedState(name string, previous int, group, back event.Status, release string) *event.State {
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
			event.Event{Kind: event.KindOperation, Status: event.RollingBack},
			event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "rollback/remove", Kind: event.PhaseRemove, Groups: g}}},
			event.Event{Kind: event.KindGroup, Phase: "rollback/remove", Group: "c:g", Status: back})
	}
	if back == event.Aborted {
		events = append(events, event.Event{Kind: event.KindRun, Status: event.Aborting})
	}
	exit := command.ExitFailed
	if group == event.Skipped {
		exit = command.ExitNothingWritten
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

// parse parses a command line. It returns a suggester for the command, and the arguments.
func parse(t testing.TB, argv ...string) (suggester, []string, error) {
	a := command.NewApp(command.NewSignals(t.Context()))
	root := &cobra.Command{Use: "lockstep", SilenceErrors: true, SilenceUsage: true}
	a.Settings.AddFlags(root.PersistentFlags())
	root.AddCommand(Commands(a)...)
	root.AddGroup(&cobra.Group{ID: "deploy"}, &cobra.Group{ID: "release"})
	p, args := suggester{app: &app{a}}, []string(nil)
	all := root.Commands()
	for _, c := range all {
		all = append(all, c.Commands()...)
	}
	for _, c := range all {
		c.RunE = func(cmd *cobra.Command, rest []string) error {
			p.cmd, args = cmd, rest
			p.Settings.KubeContext = cmd.Flag("kube-context").Value.String()
			return nil
		}
	}
	root.SetArgs(argv)
	return p, args, root.Execute()
}

func mustParse(t testing.TB, argv ...string) suggester {
	t.Helper()
	p, _, err := parse(t, argv...)
	if err != nil || p.cmd == nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return p
}

// TestNextCommands: each outcome of an operation suggests the right commands.
func TestNextCommands(t *testing.T) {
	const (
		where        = " -n n --kube-context 'my cluster'"
		fix          = "   # after fixing it"
		newPlan      = fix + "; this saves a new plan, because each can be used once"
		upgradeAgain = "lockstep upgrade s ./c" + where + " --set 'password=…'" + fix + "; fill in …"
		installAgain = "lockstep install s ./c" + where + " --set 'password=…'" + fix + "; fill in …"
		rollback     = "lockstep rollback s 3" + where
		uninstall    = "lockstep uninstall s" + where
		orRollback   = rollback + "   # or roll back"
		orUninstall  = uninstall + "   # or remove it"
		orRecover    = "lockstep recover s" + where + "   # or mark the release failed and show its objects"
		history      = "lockstep history s" + where
		status       = "lockstep status s" + where
	)
	replace := strings.ReplaceAll
	tested := endedState("test", 0, event.Failed, "", "deployed")
	tested.Phases[0].Groups[0].Name = "test:Job/smoke"
	tested.Phases[0].Groups[0].Objects = []*event.ObjectState{{Object: plan.Object{Kind: "Job", Name: "smoke"}}}
	succeeded := func(operation string, web event.Status) *event.State {
		s := endedState(operation, 0, event.Ready, "", "deployed")
		s.Status, s.Exit = event.Succeeded, 0
		s.Phases[0].Groups[0].Objects = []*event.ObjectState{{Object: plan.Object{Kind: "Deployment", Name: "web"}, Status: web}}
		return s
	}
	given := func(argv ...string) suggester {
		return mustParse(t, append(argv, "--kube-context", "my cluster", "--namespace", "n")...)
	}
	aborted := func(s *event.State, code string) *event.State {
		s.Status, s.Exit, s.Code = event.Aborted, command.ExitAborted, code
		return s
	}
	editedState := func(more ...event.Event) *event.State {
		s := endedState("upgrade", 3, event.Failed, "", "failed")
		s.Status, s.Run = event.Running, event.Replacing
		s.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "s", Namespace: "n", PreviousRevision: 3, Revision: 5, EditedValues: true}})
		for _, e := range more {
			s.Apply(e)
		}
		s.Status, s.Release = event.Failed, "failed"
		return s
	}
	lostState := func() *event.State { // to Helm, which has created the number of the edited revision
		s := editedState(
			event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Name: "g"}}}}},
			event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running, Time: time.Unix(9, 0)},
			event.Event{Kind: event.KindOperation, Status: event.Aborted, Exit: new(int), Newer: &event.NewerRevision{Revision: 5, Status: "deployed", Author: "helm"}})
		s.Release = "deployed"
		return aborted(s, "")
	}
	edited := editedState(
		event.Event{Kind: event.KindPlan, Phases: []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: "c:g", Name: "g"}}}}},
		event.Event{Kind: event.KindGroup, Phase: "apply", Group: "c:g", Status: event.Running, Time: time.Unix(9, 0)})
	chartEdited := endedState("upgrade", 3, event.Failed, "", "failed")
	chartEdited.Run = event.Replacing
	chartEdited.Apply(event.Event{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "upgrade", Release: "s", Namespace: "n", PreviousRevision: 3, Revision: 5}})
	chartEdited.Status, chartEdited.Release = event.Failed, "failed"
	deploy := func(s *event.State) []string {
		return given(s.Operation.Name, "s", "./c", "--set", "password=secret").afterDeploy(s, "./c", nil, false)
	}
	for _, c := range []struct {
		what string
		got  []string
		want []string
	}{
		{"a failed install", deploy(endedState("install", 0, event.Failed, "", "failed")), []string{installAgain, orUninstall}},
		{"a failed upgrade after an edit", deploy(edited), []string{
			"lockstep get values s --revision 5 -o yaml" + where + "   # the values of the edit, which the next command does not have", upgradeAgain, orRollback}},
		{"an upgrade that ended before the edited revision", deploy(editedState()), []string{upgradeAgain, orRollback}},
		{"a failed upgrade after an edit of the chart alone", deploy(chartEdited), []string{upgradeAgain, orRollback}},
		{"an install that wrote nothing", deploy(endedState("install", 0, event.Skipped, "", "")), nil},
		{"an install without a release record", deploy(endedState("install", 0, event.Failed, "", "none")), []string{installAgain}},
		{"an install that may be pending", deploy(endedState("install", 0, event.Failed, "", "")), []string{installAgain, orRecover}},
		{"an install that was rolled back", deploy(endedState("install", 0, event.Failed, event.Gone, "none")), []string{installAgain}},
		{"an install whose rollback failed", deploy(endedState("install", 0, event.Failed, event.Failed, "failed")), []string{installAgain, orUninstall}},
		{"an install that was aborted and rolled back", deploy(aborted(endedState("install", 0, event.Aborted, event.Gone, "none"), "")),
			[]string{replace(installAgain, "after fixing it", "to run it again")}},
		{"an install that was aborted, and rolled back without groups", deploy(aborted(endedState("install", 0, event.Aborted, "", "none"), "")),
			[]string{replace(installAgain, "after fixing it", "to run it again")}},
		{"an install that was aborted", deploy(aborted(endedState("install", 0, event.Aborted, "", "failed"), "")),
			[]string{replace(installAgain, "after fixing it", "to continue"), orUninstall}},
		{"an install that was aborted before its first write", deploy(aborted(endedState("install", 0, event.Skipped, "", ""), event.NothingWritten)), nil},
		{"an install in a sandbox", given("install", "s", "./c").afterDeploy(endedState("install", 0, event.Failed, "", "failed"), "./c", nil, true), nil},
		{"an install under a generated name", given("install", "./c", "-g").afterDeploy(endedState("install", 0, event.Failed, "", "none"), "./c", nil, false),
			[]string{"lockstep install s ./c" + where + fix}},
		{"an upgrade that was rolled back", deploy(endedState("upgrade", 3, event.Failed, event.Ready, "deployed")), []string{upgradeAgain}},
		{"a failed upgrade", deploy(endedState("upgrade", 3, event.Failed, "", "failed")), []string{upgradeAgain, orRollback}},
		{"a failed upgrade without an earlier good revision", deploy(endedState("upgrade", 0, event.Failed, "", "failed")), []string{upgradeAgain}},
		{"an upgrade whose rollback failed", deploy(endedState("upgrade", 3, event.Failed, event.Failed, "failed")),
			[]string{upgradeAgain, replace(orRollback, "or roll back", "or retry the rollback, after fixing the problem")}},
		{"an upgrade whose rollback was stopped", deploy(aborted(endedState("upgrade", 3, event.Failed, event.Aborted, "failed"), "")),
			[]string{replace(upgradeAgain, "after fixing it", "to run it again"), replace(orRollback, "or roll back", "or finish the rollback")}},
		{"an upgrade that may be pending", deploy(endedState("upgrade", 3, event.Failed, "", "")), []string{upgradeAgain, orRecover}},
		{"an upgrade that lost its release", deploy(lostState()), []string{replace(upgradeAgain, "after fixing it", "to continue"), history + "   # to see who has deployed it"}},
		{"a failed upgrade as another user", given("upgrade", "s", "./c", "-i", "--kube-as-user", "bob", "--kube-token", "secret").afterDeploy(endedState("upgrade", 3, event.Failed, "", "failed"), "./c", nil, false),
			[]string{"lockstep upgrade s ./c" + where + " --kube-as-user bob --kube-token '…' --install" + fix + "; fill in …",
				replace(orRollback, "'my cluster'", "'my cluster' --kube-as-user bob --kube-token '…'") + "; fill in …"}},
		{"an upgrade of a release that somebody else uninstalled", deploy(aborted(endedState("upgrade", 3, event.Aborted, "", "none"), "")),
			[]string{replace(replace(upgradeAgain, fix, " --install"+fix), "after fixing it", "to run it again")}},
		{"an upgrade of a release that somebody else uninstalled, with its history kept", deploy(aborted(endedState("upgrade", 3, event.Aborted, "", "uninstalled"), "")),
			[]string{replace(replace(upgradeAgain, fix, " --install"+fix), "after fixing it", "to run it again")}},
		{"an upgrade --install of such a release", given("upgrade", "s", "./c", "-i").afterDeploy(aborted(endedState("upgrade", 3, event.Aborted, "", "none"), ""), "./c", nil, false),
			[]string{"lockstep upgrade s ./c" + where + " --install   # to run it again"}},
		{"a rollback of such a release", given("rollback", "s").afterRollback(aborted(endedState("rollback", 0, event.Aborted, "", "none"), "")),
			[]string{"lockstep install s '…'" + where + "   # to deploy it again; fill in …"}},
		{"a rollback of such a release, with its history kept", given("rollback", "s").afterRollback(aborted(endedState("rollback", 0, event.Aborted, "", "uninstalled"), "")),
			[]string{"lockstep rollback s 2" + where + "   # to run it again", history}},
		{"an upgrade by a plan, which can be used once", given("upgrade", "s", "./c", "-i", "--plan", "a.plan", "--rollback-on-failure").afterDeploy(
			endedState("upgrade", 3, event.Failed, event.Ready, "deployed"), "./c", nil, false),
			[]string{"lockstep plan upgrade s ./c" + where + " --install --rollback-on-failure --out a.plan" + newPlan}},
		{"an uninstall by a plan", given("uninstall", "s", "--plan", "a.plan").afterUninstall(endedState("uninstall", 0, event.Failed, "", "failed"), nil),
			[]string{"lockstep plan uninstall s" + where + " --out a.plan" + newPlan, status}},
		{"a failed rollback", given("rollback", "s", "--cleanup-on-fail").afterRollback(endedState("rollback", 0, event.Failed, "", "failed")),
			[]string{"lockstep rollback s 2" + where + " --cleanup-on-fail" + fix, history}},
		{"a failed uninstall", given("uninstall", "s").afterUninstall(endedState("uninstall", 0, event.Failed, "", "failed"), nil), []string{uninstall + fix, status}},
		{"the first of several", given("del", "s", "t", "--timeout", "1m").afterUninstall(endedState("uninstall", 0, event.Failed, "", "failed"), []string{"t"}),
			[]string{"lockstep uninstall s t" + where + " --timeout 1m0s" + fix, status}},
		{"an install", deploy(succeeded("install", event.Ready)), nil},
		{"an install with an object that is no longer ready", deploy(succeeded("install", event.InProgress)), []string{status + "   # why c:g is degraded"}},
		{"a rollback with an object that is no longer ready", given("rollback", "s").afterRollback(succeeded("rollback", event.InProgress)), []string{status + "   # why c:g is degraded"}},
		{"an uninstall that failed at its end", given("uninstall", "s").afterUninstall(endedState("uninstall", 0, event.Failed, "", "none"), nil), nil},
		{"tests of which one failed", given("test", "s", "--logs", "--filter", "name=x").afterTest(tested),
			[]string{"lockstep test s --filter name=smoke" + where + " --logs" + fix}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("after %s:\n%q, want\n%q", c.what, c.got, c.want)
		}
	}
}

// TestRerunKeepsFlags: the suggested command has the flags of the failed one.
func TestRerunKeepsFlags(t *testing.T) {
	p := mustParse(t, "install", "s", "./c", "-n", "n", "--wait-all=false", "--readiness-timeout", "8s", "--set", "a=b")
	want := "lockstep install s ./c -n n --readiness-timeout 8s --set a=b --wait-all=false   # after fixing it"
	if got := p.afterDeploy(endedState("install", 0, event.Failed, "", "none"), "./c", nil, false); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRerunOfStack: the suggested command deploys the releases of a helmfile into the same namespace.
func TestRerunOfStack(t *testing.T) {
	p := mustParse(t, "up", "-f", "hf.yaml", "-n", "n", "--kube-context", "c")
	state := &event.State{Operation: event.Operation{Name: "up", Release: "hf"}, Status: event.Failed, Exit: command.ExitFailed}
	want := "lockstep up --kube-context c -f hf.yaml -n n   # after fixing it"
	if got := p.afterStack(state, false); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
	p = mustParse(t, "up", "-f", "hf.yaml", "--plan", "a.plan", "--allow-hooks")
	want = "lockstep plan -f hf.yaml --out a.plan   # after fixing it; this saves a new plan, because each can be used once"
	if got := p.afterStack(state, false); !slices.Equal(got, []string{want}) {
		t.Errorf("after a plan: %q, want %q", got, want)
	}
	p = mustParse(t, "up", "-f", "hf.yaml", "-l", "tier=db", "-n", "n", "--kube-context", "c", "--timeout", "9m")
	if got := p.afterStack(driftedStack(), false); !slices.Equal(got, []string{"lockstep drift -f hf.yaml -n n -l tier=db --repair --kube-context c   # to undo what others have changed"}) {
		t.Errorf("after drift: %q", got)
	}
}

// driftedStack returns the state of a stack of one release, in which others have changed an object.
func driftedStack() *event.State {
	s := &event.State{}
	object := plan.Object{Kind: "ConfigMap", Name: "conf"}
	at := func(group string) []event.Phase {
		return []event.Phase{{Name: "apply", Kind: event.PhaseApply, Groups: []*plan.Group{{ID: group, Objects: []plan.Object{object}}}}}
	}
	for _, e := range []event.Event{
		{Kind: event.KindOperation, Status: event.Running, Operation: &event.Operation{Name: "up", Release: "hf"}},
		{Kind: event.KindPlan, Phases: at("shop")},
		{Kind: event.KindPlan, Scope: "shop", Phases: at("shop:a")},
		{Kind: event.KindDrift, Scope: "shop", Phase: "apply", Group: "shop:a", Object: &object, Drift: []event.Drift{{Field: "data.a", Manager: "kubectl"}}},
		{Kind: event.KindOperation, Status: event.Succeeded, Exit: new(int)},
	} {
		s.Apply(e)
	}
	return s
}

// TestRerunUsesSavedValues: the file with saved values replaces all flags for values.
func TestRerunUsesSavedValues(t *testing.T) { // R46
	p := mustParse(t, "upgrade", "s", "./c", "-n", "n", "-f", "a.yaml", "--set", "a=b", "--set-string", "c=d", "--reuse-values", "--wait-all=false")
	want := "lockstep upgrade s ./c -f values-s.yaml --set id=1000000 -n n --wait-all=false   # after fixing it"
	if got := p.afterDeploy(endedState("upgrade", 0, event.Failed, "", "failed"), "./c", []string{"-f", "values-s.yaml", "--set", "id=1000000"}, false); !slices.Equal(got, []string{want}) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRerunRoundTrip parses commands with random flags, passes the suggested lines through a
// shell, and parses them again: all flags have the same values, and secret ones are hidden.
func TestRerunRoundTrip(t *testing.T) {
	const secret = "hunter22"
	var m mask.Mask
	m.AddObject(map[string]any{"kind": "Secret", "apiVersion": "v1", "stringData": map[string]any{"a": secret}})
	var givens []suggester
	var script strings.Builder
	script.WriteString("lockstep() { for a in \"$@\"; do printf '%s\\0' \"$a\"; done; printf '\\1\\0'; }\n")
	commands := [][]string{{"install", "s", "./it's"}, {"upgrade", "s", "oci://c/$x"}, {"rollback", "s", "2"}, {"uninstall", "s", "t"}, {"test", "s"}}
	var plain []*cobra.Command
	for _, words := range commands {
		plain = append(plain, mustParse(t, words...).cmd)
	}
	for seed := range 60 {
		random := rand.New(rand.NewPCG(uint64(seed), 3))
		n := seed % len(commands)
		words := commands[n]
		argv := slices.Concat(words, randomFlags(random, plain[n], secret))
		p, args, err := parse(t, argv...)
		if err != nil { // flags that exclude one another
			continue
		}
		p.mask = &m
		givens = append(givens, p)
		line := p.rerun(endedState(words[0], 0, event.Failed, "", "failed"), args)
		if strings.Contains(line, secret) {
			t.Fatalf("%q: a secret is shown: %s", argv, line)
		}
		script.WriteString(line + "\n")
	}
	if len(givens) < 30 {
		t.Fatalf("only %d of the command lines were valid", len(givens))
	}
	shell := exec.CommandContext(t.Context(), "sh")
	shell.Stdin = strings.NewReader(script.String())
	out, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\x01\x00"), "\x01\x00")
	if len(lines) != len(givens) {
		t.Fatalf("%d lines of %d", len(lines), len(givens))
	}
	for n, line := range lines {
		argv := strings.Split(strings.TrimSuffix(line, "\x00"), "\x00")
		got, _, err := parse(t, argv...)
		if err != nil {
			t.Fatalf("%q: %v", argv, err)
		}
		sameFlags(t, givens[n].cmd, got.cmd, secret)
	}
}

// randomFlags returns some flags of a command with values that need quotes in a shell.
func randomFlags(random *rand.Rand, cmd *cobra.Command, secret string) (argv []string) {
	pieces := []string{"a", "b c", "it's", `"q"`, "$HOME", "`x`", "x,y", "k=v", "-x", "é", "*", "!", "#", `\\,`, "{1,2}", "[0]", "~", "a.b", secret}
	word := func() string {
		var w string
		for range 1 + random.IntN(3) {
			w += pieces[random.IntN(len(pieces))]
		}
		return w
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "namespace" || random.IntN(5) > 0 {
			return
		}
		for range 1 + random.IntN(2) {
			value := word()
			c, limited := f.Value.(*command.Choice)
			switch {
			case limited:
				value = c.Allowed[random.IntN(len(c.Allowed))]
			case f.Value.Type() == "bool":
				value = []string{"true", "false"}[random.IntN(2)]
			case f.Value.Type() == "duration":
				value = fmt.Sprint(random.IntN(1000), "ms")
				value = strings.ReplaceAll(value, " ", "")
			case f.Value.Type() == "int" || f.Value.Type() == "float32":
				value = fmt.Sprint(random.IntN(100))
			case f.Value.Type() == "stringSlice":
				value = command.QuoteCSV(value) + ",z"
			case f.Value.Type() == "stringToString":
				value = fmt.Sprintf("k%d=%s", random.IntN(9), strings.NewReplacer(`"`, "", "=", "", ",", "").Replace(value))
			}
			argv = append(argv, "--"+f.Name+"="+value)
		}
	})
	return argv
}

// sameFlags checks that two command lines set the same flags to the same values, except for
// secret ones, which must be hidden. A command with --plan became one that saves a plan.
func sameFlags(t *testing.T, given, proposed *cobra.Command, secret string) {
	t.Helper()
	value := func(cmd *cobra.Command, f *pflag.Flag) string {
		if f.Value.Type() == "stringToString" {
			m, err := cmd.Flags().GetStringToString(f.Name)
			return fmt.Sprint(m, err)
		}
		if s, ok := f.Value.(pflag.SliceValue); ok {
			return fmt.Sprintf("%q", s.GetSlice())
		}
		return f.Value.String()
	}
	given.Flags().VisitAll(func(f *pflag.Flag) {
		g := proposed.Flag(f.Name)
		if out := proposed.Flag("out"); out != nil && f.Name == "plan" {
			g = out
		} else if g == nil || out != nil && (f.Name == "output" || f.Name == "sandbox") { // of the run, not of the plan
			return
		}
		want, got := value(given, f), value(proposed, g)
		switch {
		case f.Name == "namespace":
		case want != f.DefValue && (f.Name == "password" || f.Name == "kube-token" || f.Name == "notify" || strings.Contains(want, secret)):
			if !strings.Contains(got, mask.Ellipsis) {
				t.Errorf("--%s %s became %s", f.Name, want, got)
			}
		case f.Changed != g.Changed || want != got:
			t.Errorf("--%s %s became %s", f.Name, want, got)
		}
	})
}
