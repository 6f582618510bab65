package plan

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Lint lints a chart that is deployed without --wait-for-jobs.
func Lint(root *Chart, resources []Resource) []Finding { return AwaitedJobs.Lint(root, resources) }

// sameFindings checks for findings of the form "severity rule: part of it".
func sameFindings(t *testing.T, got []Finding, want ...string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		head, part, _ := strings.Cut(want[i], ": ")
		ok = head == got[i].Severity+" "+got[i].Rule && strings.Contains(got[i].Message, part)
	}
	if !ok {
		var lines []string
		for _, f := range got {
			lines = append(lines, f.Severity+" "+f.Rule+": "+f.Message)
		}
		t.Errorf("findings:\n  %s\nwant:\n  %s", strings.Join(lines, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestLint(t *testing.T) { // R37
	x, y, z := chart("shop/x"), chart("shop/y"), chart("shop/z")
	job := func(annotations ...string) []Resource {
		return []Resource{
			res("shop", "Job/migrate", append([]string{in, "db"}, annotations...)...),
			res("shop", "ConfigMap/app", in, "app", needs, `["db"]`), res("shop", "Job/leaf", in, "app"),
		}
	}
	t.Run("no findings", func(t *testing.T) {
		sameFindings(t, Lint(chart("shop", sub(x), sub(y)), []Resource{res("shop", "Job/a")}))
	})
	t.Run("all errors at once", func(t *testing.T) {
		root := waiting("shop", []string{"no"}, sub(x, "y"), sub(y, "x"))
		sameFindings(t, Lint(root, []Resource{
			res("shop", "Job/a", in, "a", needs, `["a"]`), res("shop", "Job/b", layer, "b"), res("shop", "Job/b", in, "c", needs, `["d"]`),
			res("shop", "Job/c", in, "c", needs, "d"), res("shop", "Job/d", AnnotationReadinessFailure, `["x"]`),
		}),
			"error R2: Job/c", `error R8: "d", which does not exist`, "error R12: not a subchart", "error R13: Job/b is in two groups",
			"error R13: group \"a\" waits for itself; remove that dependency", "error R13: subcharts wait for each other in a cycle: x → y → x; remove one dependency",
			"error R20: Job/a has helm.sh/resource-group, Job/b has helm.sh/layer", "error R24: Job/d",
			`warning R9: "b" waits for no group`)
	})
	t.Run("warnings", func(t *testing.T) {
		root := waiting("shop", []string{"off"}, Subchart{Name: "off"}, Subchart{Name: "rest"}, sub(x))
		resources := append(job(), res("shop/x", "ConfigMap/x"), res("shop", "ConfigMap/lonely", in, "lonely"), res("shop", "ConfigMap/loose", needs, `["db"]`))
		sameFindings(t, StartedJobs.Lint(root, resources), `warning R9: "lonely"`, "warning R10: ConfigMap/loose", `warning R11: subchart "x"`,
			`warning R12: "off", which is disabled`, "warning R22: Job/leaf", "warning R22: Job/migrate: other groups wait for it", `info R11a: wait for subchart "x"`)
	})
	t.Run("R2b an annotation of Chart.yaml on an object", func(t *testing.T) {
		sameFindings(t, Lint(chart("shop"), []Resource{res("shop", "ConfigMap/a", "helm.sh/depends-on-subcharts", `["db"]`)}),
			"warning R2b: shop: ConfigMap/a: annotation helm.sh/depends-on-subcharts has no effect on an object; set it in Chart.yaml")
	})
	t.Run("R2b misspelt keys", func(t *testing.T) {
		one := func(key string) []Resource { return []Resource{res("shop", "ConfigMap/a", key, "x")} }
		for key, want := range map[string]string{
			"helm.sh/resource-groups": AnnotationGroup, "helm.sh/readiness-sucess": AnnotationReadinessSuccess, "helm.sh/depend-on-resource-groups": StoredKey(needs),
			"helm.sh/weigth": AnnotationWeight, "helm.sh/hooks": "helm.sh/hook",
		} {
			want = "warning R2b: shop: ConfigMap/a: annotation " + key + " is unknown and has no effect; did you mean " + want + "?"
			sameFindings(t, Lint(nil, one(key)), want)
			p, err := Build(nil, one(key))
			unordered, checked := Check(nil, one(key))
			if err != nil || checked != nil || len(p.Warnings) != 1 || !reflect.DeepEqual(p.Warnings, unordered) {
				t.Errorf("%s: the plan warns %v (%v), the check %v (%v)", key, p, err, unordered, checked)
			}
		}
		for _, key := range append(helmKeys, "helm.sh/owner", "helm.sh/revision", "example.com/resource-groups", "resource-groups") {
			sameFindings(t, Lint(nil, one(key)))
		}
		const refused = "shop: ConfigMap/a: the API server would refuse annotation "
		sameFindings(t, Lint(chart("shop"), one("helm.sh/depend-on/resource-groups")),
			"error R2b: shop: ConfigMap/a: annotation helm.sh/depend-on/resource-groups is unknown, and the API server would refuse it; did you mean "+needs+"?")
		sameFindings(t, Lint(chart("shop"), one("example.com/a/b")), "error R2b: "+refused+"example.com/a/b, because its key has more than one slash")
	})
	t.Run("undeclared subcharts", func(t *testing.T) {
		all := []Resource{res("shop/x", "ConfigMap/x"), res("shop/y", "ConfigMap/y"), res("shop/z", "ConfigMap/z")}
		layered := append(slices.Clip(all), res("shop", "ConfigMap/a", layer, "a", uses, "y"))
		sameFindings(t, Lint(chart("shop", sub(x), sub(y), sub(z)), layered), `warning R11: subchart "x"`, `warning R11: subchart "z"`, `info R11a: subcharts "x", "z"`)
		sameFindings(t, Lint(chart("shop", sub(x), sub(y, "x"), sub(z)), all), `warning R11: subchart "z"`)
	})
	t.Run("R11 subcharts that render nothing are ignored", func(t *testing.T) {
		sameFindings(t, Lint(chart("shop", sub(x), sub(y, "x"), sub(z)), []Resource{res("shop/x", "ConfigMap/x")}))
	})
	t.Run("R22 a Job that must complete", func(t *testing.T) {
		sameFindings(t, StartedJobs.Lint(nil, job(AnnotationReadinessSuccess, `["{.succeeded} == 1"]`, AnnotationReadinessFailure, `["{.failed} > 0"]`)))
		sameFindings(t, StartedJobs.Lint(nil, []Resource{res("shop", "Job/a", layer, "a"), res("shop", "Job/b", layer, "b", above, "a")}))
		sameFindings(t, Lint(nil, job()))
		sameFindings(t, AllJobs.Lint(nil, job()))
	})
	t.Run("R22 a LoadBalancer that is waited for", func(t *testing.T) {
		balanced := res("shop", "Service/front", in, "front")
		balanced.LoadBalancer = true
		after := res("shop", "ConfigMap/app", in, "app", needs, `["front"]`)
		sameFindings(t, Lint(nil, []Resource{balanced, after}), "warning R22: Service/front: other groups wait for it, but a LoadBalancer Service counts as ready without an address")
		sameFindings(t, Lint(nil, []Resource{res("shop", "Service/front", in, "front"), after}))
		own := res("shop", "Service/front", in, "front", AnnotationReadinessSuccess, `["{.loadBalancer.ingress[0].ip} != none"]`, AnnotationReadinessFailure, `["{.loadBalancer.error} == true"]`)
		own.LoadBalancer = true
		sameFindings(t, Lint(nil, []Resource{own, after}))
		leaf := res("shop", "Service/front", in, "front", needs, `["app"]`)
		leaf.LoadBalancer = true
		sameFindings(t, Lint(nil, []Resource{leaf, res("shop", "ConfigMap/app", in, "app")}))
	})
	t.Run("R22c a workload without a probe that is waited for", func(t *testing.T) {
		unprobed := func(annotations ...string) Resource {
			r := res("shop", "Deployment/web", append([]string{in, "web"}, annotations...)...)
			r.Unprobed = "app"
			r.Wait, _ = ReadWait(r.Annotations)
			return r
		}
		after, last := res("shop", "ConfigMap/after", in, "after", needs, `["web"]`), res("shop", "ConfigMap/last")
		const want = "warning R22c: shop: Deployment/web: other groups wait for it, but its container app has neither a readiness nor a startup probe, " +
			"so they start as soon as it has started; add a readinessProbe, or annotate it with lockstep/stable-for, such as 10s"
		sameFindings(t, Lint(nil, []Resource{unprobed(), after}), want)
		if p, err := Build(nil, []Resource{unprobed(), after}); err != nil || len(p.Warnings) > 0 {
			t.Errorf("the plan warns, too: %v, %v", p.Warnings, err)
		}
		sameFindings(t, Lint(nil, []Resource{res("shop", "Deployment/web", in, "web"), after}))
		sameFindings(t, Lint(nil, []Resource{unprobed(AnnotationStableFor, "10s"), after}))
		sameFindings(t, Lint(nil, []Resource{unprobed(AnnotationWait, "false"), after}), "warning R22b: nothing waits for Deployment/web")
		sameFindings(t, Lint(nil, []Resource{unprobed(AnnotationReadinessSuccess, `["{.a} == 1"]`, AnnotationReadinessFailure, `["{.a} == 2"]`), after}))
		sameFindings(t, Lint(nil, []Resource{unprobed(needs, `["after"]`), res("shop", "ConfigMap/after", in, "after"), last})) // only the last batch waits for it
		below := unprobed()
		below.Chart, below.Annotations = "shop/x", nil
		sameFindings(t, Lint(chart("shop", sub(x)), []Resource{below, last}))
		sameFindings(t, Lint(waiting("shop", []string{"x"}, sub(x)), []Resource{below, last}), "warning R22c: shop/x: Deployment/web: other groups wait for it")
	})
	t.Run("R22 a spec that keeps an object back is said by the plan, too", func(t *testing.T) {
		held := func(name, group string, annotations ...string) Resource {
			r := res("shop", name, append([]string{group, "first"}, annotations...)...)
			r.HeldBack = "suspended"
			return r
		}
		custom := []string{AnnotationReadinessSuccess, `["{.a} == 1"]`, AnnotationReadinessFailure, `["{.a} == 2"]`}
		for _, c := range []struct {
			resources []Resource
			want      []string
		}{
			{[]Resource{held("Deployment/a", in), res("shop", "ConfigMap/b", in, "b", needs, `["first"]`)},
				[]string{"warning R22: Deployment/a: other groups wait for it, but it counts as ready as it is (suspended)"}},
			{[]Resource{held("Job/a", layer), res("shop", "ConfigMap/b", layer, "b", above, "first")},
				[]string{"warning R22: Job/a: other groups wait until it completes, but it never starts (suspended); resume it"}},
			{[]Resource{held("Deployment/a", in, custom...), res("shop", "ConfigMap/b", in, "b", needs, `["first"]`)}, nil},
			{[]Resource{held("Deployment/a", in, needs, `["b"]`), res("shop", "ConfigMap/b", in, "b")}, nil},
		} {
			sameFindings(t, Lint(nil, c.resources), c.want...)
			p, err := Build(nil, c.resources)
			if err != nil || len(p.Warnings) != len(c.want) {
				t.Errorf("%v: %v", p.Warnings, err)
			}
		}
	})
	t.Run("R22 says what to do", func(t *testing.T) {
		const advice = "to wait until it completes, leave out that flag, or annotate the Job with "
		const own = "both " + AnnotationReadinessSuccess + " and " + AnnotationReadinessFailure
		sameFindings(t, StartedJobs.Lint(nil, job()), "warning R22: "+advice+own) // a layer would be a second method (R20)
		weights := []Resource{res("shop", "Job/migrate", weight, "1"), res("shop", "ConfigMap/app", weight, "2")}
		sameFindings(t, StartedJobs.Lint(nil, weights), "warning R22: "+advice+own)
		charts := []Resource{res("shop", "ConfigMap/app"), res("shop/x", "Job/migrate")}
		sameFindings(t, StartedJobs.Lint(waiting("shop", []string{"x"}, sub(x)), charts), "warning R22: "+advice+AnnotationLayer+" or with "+own)
	})
}
