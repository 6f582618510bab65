package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lockstep/kube/throwaway/testcluster"
)

// twins runs the same random sequence of operations with lockstep and with Helm, each in its own namespace: upgrades to
// random versions of a chart, some of which fail, rollbacks, and edits by other clients. After each step the objects,
// the owners of their fields and the release records must be equal, except that lockstep removes objects of failed
// revisions (R32a), and keeps what an earlier revision had left behind on purpose (R31a). lockstep's plan of each step must
// match its changes.
func twins(t *testing.T) []trialGroup {
	helm := testcluster.Helm(t)
	var all []trialGroup
	for seed := range max(300, only+1) {
		all = append(all, trialGroup{[]int{seed}, func(t *testing.T, report func(int, string, error)) {
			l := newTwinRelease(t, helm, seed)
			err := l.compareAll()
			report(seed, strings.Join(l.log, "\n"), err)
		}})
	}
	return all
}

// twinRelease is a release in two namespaces: lockstep's and Helm's.
type twinRelease struct {
	generator
	harness *harness // runs the processes
	helm    string
	ours    string // lockstep's namespace
	helms   string
	// versions are the versions of the chart so far. invalid are the revisions whose chart has an invalid object.
	versions []twinChart
	invalid  map[int]bool
	diverged bool     // a step failed partway, so the objects of the two may differ
	log      []string // for the report
	// taken are the objects of others that lockstep took over with --take-ownership, and Helm without.
	taken map[string]bool
}

// settleTimeout is how long deletions and controllers may take.
const settleTimeout = 40 * time.Second

func newTwinRelease(t *testing.T, helm string, seed int) *twinRelease {
	l := &twinRelease{generator: generator{rand.New(rand.NewPCG(uint64(seed), 20))}, helm: helm, invalid: map[int]bool{}, taken: map[string]bool{}}
	l.versions = []twinChart{l.generator.chart()}
	for _, namespace := range []*string{&l.ours, &l.helms} {
		*namespace = fmt.Sprintf("twin-%d", harnessCount.Add(1))
		l.harness = &harness{t: t, dir: t.TempDir(), ns: *namespace}
		l.harness.newNamespace()
	}
	return l
}

// state reads the state of the release in a namespace.
func (l *twinRelease) state(namespace string) releaseState {
	kinds := map[string]bool{}
	for _, k := range l.versions[0].kinds {
		kinds[k.kind] = true
	}
	s, err := readState(context.Background(), namespace, kinds)
	l.harness.check(err)
	return s
}

func (l *twinRelease) logf(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf("    "+format, args...))
}

// compareAll runs all steps, up to the first difference.
func (l *twinRelease) compareAll() error {
	if err := l.step("upgrade", 0); err != nil {
		return err
	}
	for range 4 {
		if err := l.changeObjects(); err != nil {
			return err
		}
		verb, to := l.choose()
		if err := l.step(verb, to); err != nil {
			return err
		}
		// Helm and lockstep have then updated different objects, so the owners of their fields differ for good.
		if all := l.state(l.ours).records; l.diverged && len(all) > 0 && all[len(all)-1].Method == "csa" {
			break
		}
	}
	return l.uninstall()
}

// choose picks an operation and, for a rollback, the revision.
func (l *twinRelease) choose() (verb string, to int) {
	s := l.state(l.ours)
	var good []int
	for _, r := range s.records {
		if !l.invalid[r.Version] && r.Info.Status != "failed" {
			good = append(good, r.Version)
		}
	}
	if len(good) > 0 && l.chance(30) {
		return "rollback", pick(l.generator, good...)
	}
	return "upgrade", 0
}

// step runs the same operation with both programs and compares the results.
func (l *twinRelease) step(verb string, to int) error {
	before := l.state(l.ours)
	args, chart, rollBack := l.command(verb, to, before)
	planned, diffs, err := l.plan(args)
	if err != nil {
		return err
	}
	if rollBack {
		args = append(args, "--rollback-on-failure")
	}
	ourArgs := append(slices.Clone(args), "--timeout", "60s", "-o", "json", "--no-tui")
	ours, helms := l.run(lockstepProgram, l.ours, ourArgs...), l.run(l.helm, l.helms, forHelm(args)...)
	for _, p := range []*process{ours, helms} {
		if err := p.wait(2 * time.Minute * slowdown); err != nil {
			return fmt.Errorf("  %w\n%s", err, p.outputTail())
		}
	}
	if ours.exitCode == 2 {
		if ours, err = l.checkRefusal(ours, helms, before, ourArgs); err != nil || ours == nil {
			return err
		}
		maps.DeleteFunc(planned, func(id, _ string) bool { // planned without --take-ownership
			_, id, _ = strings.Cut(id, " ")
			return l.taken[id]
		})
	}
	output := errorOutput(ours) + "\n" + helms.outputTail()
	if (ours.exitCode == 0) != (helms.exitCode == 0) || chart.invalid && ours.exitCode == 0 {
		return fmt.Errorf("  exit code %d, with helm %d\n%s", ours.exitCode, helms.exitCode, output)
	}
	// Edits may cause the API server to refuse another object than the invalid one. Helm and lockstep then stop at
	// different objects. The rollback of a failure writes only what lockstep has touched (R33).
	l.diverged = ours.exitCode != 0 && (l.diverged || rollBack || !failedAtInvalidObject(ours) || !failedAtInvalidObject(helms))
	l.logf("exit code %d, diverged: %t", ours.exitCode, l.diverged)
	if chart.invalid {
		l.invalid[revisionAfter(before)] = true
	}
	wrong := append(planned.deviations(ours, before, l.state(l.ours)), l.compare(ours.exitCode == 0 || rollBack)...)
	if ours.exitCode == 0 {
		wrong = append(wrong, diffs.wrong(before, l.state(l.ours))...)
	}
	if len(wrong) > 0 {
		return errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + output)
	}
	return nil
}

// checkRefusal checks that an operation that lockstep refused in advance wrote nothing, and that it fails indeed: it runs
// the operation without the checks, as Helm does. If Helm refused it in advance too, checkRefusal returns nil. Objects that
// only failed revisions have, and that somebody else has created again, are Helm's; lockstep takes them over if told to (R31a).
func (l *twinRelease) checkRefusal(refused, helms *process, before releaseState, args []string) (*process, error) {
	l.logf("refused: %s", strings.TrimSpace(refused.err.String()))
	after := l.state(l.ours)
	if len(after.records) != len(before.records) {
		return nil, fmt.Errorf("  the refused operation created a revision\n%s", refused.outputTail())
	}
	for id, o := range after.objects {
		if was, ok := before.objects[id]; !ok || was.GetResourceVersion() != o.GetResourceVersion() && o.GetKind() == "ConfigMap" {
			return nil, fmt.Errorf("  the refused operation wrote %s\n%s", id, refused.outputTail())
		}
	}
	if strings.Contains(helms.err.String(), "cannot be imported into the current release") {
		wrong := l.compare(false)
		if !strings.Contains(refused.err.String(), "managed by Helm") {
			wrong = append(wrong, "Helm refuses an object of somebody else")
		}
		if len(wrong) > 0 {
			return nil, errors.New("  " + strings.Join(wrong, "\n  ") + "\n" + refused.outputTail() + "\n" + helms.outputTail())
		}
		return nil, nil
	}
	args = append(args, "--skip-preflight")
	if !before.deployed() && strings.Contains(refused.err.String(), "is not managed by Helm") {
		args = append(args, "--take-ownership")
		for id, o := range before.objects {
			if o.GetAnnotations()["meta.helm.sh/release-name"] == "" {
				l.taken[id] = true
			}
		}
	}
	p := l.run(lockstepProgram, l.ours, args...)
	if err := p.wait(2 * time.Minute * slowdown); err != nil {
		return nil, fmt.Errorf("  %w\n%s", err, p.outputTail())
	}
	if p.exitCode != 1 {
		return nil, fmt.Errorf("  exit code %d without the checks that refused it\n%s\n%s", p.exitCode, refused.outputTail(), p.outputTail())
	}
	return p, nil
}

// command picks the arguments of a step, and whether to roll back on failure.
func (l *twinRelease) command(verb string, to int, before releaseState) (args []string, chart twinChart, rollBack bool) {
	args = []string{verb, "r"}
	if verb == "rollback" {
		args = append(args, fmt.Sprint(to))
	} else {
		chart = l.chart()
		dir := filepath.Join(l.harness.dir, fmt.Sprintf("chart-%d", len(l.log)))
		l.harness.check(chart.write(dir, l.ours))
		l.harness.check(chart.write(helmDir(dir), l.helms))
		args = append(args, dir, "--install")
	}
	deployed := before.deployed()
	method := pick(l.generator, "auto", "auto", "true", "false")
	failed := len(before.records) > 0 && before.records[len(before.records)-1].Info.Status == "failed"
	if failed || l.diverged { // client-side apply removes what it has added (R32a), and if nothing is deployed auto differs: Helm upgrades (R50)
		method = "true"
	}
	args = append(args, "--server-side="+method)
	force := (l.chance(60) || l.diverged) && (method == "true" || method == "auto" && appliedOnServer(before, to))
	if force {
		args = append(args, "--force-conflicts")
	}
	// If no revision was ever deployed, Helm has nothing to roll back to, but lockstep continues the install and
	// uninstalls it (R33, R50).
	removable := len(before.records) == 0 && !slices.ContainsFunc(chart.objects, hasFinalizers)
	rollBack = chart.invalid && force && (deployed || removable) && l.chance(40)
	words := slices.DeleteFunc(slices.Clone(args), filepath.IsAbs)
	l.logf("%s, %d objects, invalid: %t, rollback on failure: %t", strings.Join(words, " "), len(chart.objects), chart.invalid, rollBack)
	return args, chart, rollBack
}

// helmDir returns the folder of Helm's copy of a chart: its CRDs have other names.
func helmDir(dir string) string { return dir + "-helm" }

// forHelm returns the arguments with Helm's copy of the chart.
func forHelm(args []string) (out []string) {
	for _, a := range args {
		if filepath.IsAbs(a) {
			a = helmDir(a)
		}
		out = append(out, a)
	}
	return out
}

// appliedOnServer reports whether auto means server-side apply: as for the revision to roll back to, 0 for the latest.
func appliedOnServer(before releaseState, to int) bool {
	n := len(before.records)
	if to == 0 && n > 0 {
		to = before.records[n-1].Version
	}
	return !slices.ContainsFunc(before.records, func(r releaseRecord) bool { return r.Version == to && r.Method == "csa" })
}

// failedAtInvalidObject reports whether a step failed because of the invalid object.
func failedAtInvalidObject(p *process) bool {
	text := p.err.String()
	return strings.Contains(text, "Ingress/bad: ") || strings.Contains(text, `Ingress.networking.k8s.io "bad" is invalid`)
}

// errorOutput returns what a run printed to stderr.
func errorOutput(p *process) string { return "    | " + strings.TrimSpace(p.err.String()) }

// revisionAfter returns the revision that the next operation creates.
func revisionAfter(before releaseState) int {
	if n := len(before.records); n > 0 {
		return before.records[n-1].Version + 1
	}
	return 1
}

// chart returns the next version of the chart or an earlier one, sometimes with an invalid object.
func (l *twinRelease) chart() twinChart {
	if n := len(l.versions); len(l.log) > 0 && (n < 3 || l.chance(30)) {
		l.versions = append(l.versions, l.next(l.versions[n-1]))
	}
	c := l.versions[len(l.versions)-1]
	if l.chance(30) {
		c = l.versions[l.IntN(len(l.versions))]
	}
	if l.chance(30) {
		return c.withInvalidObject()
	}
	return c
}

func (l *twinRelease) run(program, namespace string, args ...string) *process {
	return l.harness.exec(program, sandbox.Kubeconfig, append(args, "-n", namespace)...)
}

// changeObjects makes the same random edits in both namespaces.
func (l *twinRelease) changeObjects() error {
	if l.diverged {
		return nil
	}
	s := l.state(l.ours)
	for range l.IntN(4) {
		e, ok := l.edit(s.objects)
		if !ok {
			continue
		}
		ours, helms := editResult(e.do(context.Background(), l.ours)), editResult(e.do(context.Background(), l.helms))
		l.logf("%s: %s", e.what, ours)
		if ours != helms {
			return fmt.Errorf("  an edit: %s, with helm %s", ours, helms)
		}
	}
	within(context.Background(), settleTimeout, func() bool {
		return l.state(l.ours).settled()
	})
	// The API server orders field managers by the second of their last apply. The next apply must not happen in the
	// same second as an edit.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
	return nil
}

// uninstall uninstalls the release with both programs and compares the rest.
func (l *twinRelease) uninstall() error {
	last := l.state(l.ours)
	for _, namespace := range []string{l.ours, l.helms} {
		s := l.state(namespace)
		for _, o := range s.objects {
			if hasFinalizers(o.Object) {
				client := admin.Resource(twinResources[o.GetKind()]).Namespace(namespace)
				noFinalizers := []byte(`{"metadata":{"finalizers":null}}`)
				_, err := client.Patch(context.Background(), o.GetName(), types.MergePatchType, noFinalizers, metav1.PatchOptions{})
				l.harness.check(err)
			}
		}
		if len(s.records) == 0 {
			continue
		}
		program := map[string]string{l.ours: lockstepProgram, l.helms: l.helm}[namespace]
		p := l.run(program, namespace, "uninstall", "r")
		if err := p.wait(2 * time.Minute * slowdown); err != nil || p.exitCode != 0 {
			return fmt.Errorf("  uninstall: exit code %d, %w\n%s", p.exitCode, err, p.outputTail())
		}
	}
	l.logf("uninstall")
	l.deleteCRDs()
	l.diverged = false
	var wrong []string
	within(context.Background(), settleTimeout, func() bool {
		ours, helms := l.state(l.ours), l.state(l.helms)
		ours.records, wrong = last.records, nil
		for id := range ours.objects {
			if _, ok := helms.objects[id]; !ok && !ours.leftBehind(id) && !l.taken[id] {
				wrong = append(wrong, id+" was not deleted")
			}
		}
		return len(wrong) == 0
	})
	if len(wrong) > 0 {
		return errors.New("  after the uninstall " + strings.Join(wrong, ", "))
	}
	return nil
}
